-- lock_waiters: who stands in a lock's queue, in order, and for how long each is taken to be alive if it
-- is not heard of again.
--
-- KEYS[1]  queue  list of waiters, the next one first
-- KEYS[k]  alive  from k = 2 on: sorted set {waiter -> server ms}, dead then; the last one that has a waiter decides
--
-- REPLY    {waiter, ms, ...}  waiters as texts; ms not below 0
--
-- USES     now

local time, alive = now(), {}
for k = 2, #KEYS do
  local flat = redis.call('ZRANGE', KEYS[k], '0', '-1', 'WITHSCORES')
  for i = 1, #flat, 2 do alive[flat[i]] = tonumber(flat[i + 1]) end
end
local reply = {}
for _, waiter in ipairs(redis.call('LRANGE', KEYS[1], '0', '-1')) do
  reply[#reply + 1] = waiter
  reply[#reply + 1] = math.max(0, (alive[waiter] or time) - time)
end
return reply
