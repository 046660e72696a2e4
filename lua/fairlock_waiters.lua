-- fairlock_waiters: who stands in a fair lock's queue, in order, and for how long each is taken
-- to be alive if it is not heard of again.
--
-- KEYS[1]  queue  list of waiting owners, Redisson's and ours, the next one first
-- KEYS[2]  due    sorted set {waiting owner -> server ms}: Redisson takes it for dead then
-- KEYS[3]  alive  sorted set {waiting owner of ours -> server ms}: dead then
--
-- REPLY    {owner, ms, ...}  owners as texts; ms not below 0
--
-- USES     now

local time = now()

local function scores(key)
  local flat, found = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES'), {}
  for i = 1, #flat, 2 do found[flat[i]] = tonumber(flat[i + 1]) end
  return found
end

local due, alive = scores(KEYS[2]), scores(KEYS[3])
local reply = {}
for _, owner in ipairs(redis.call('LRANGE', KEYS[1], 0, -1)) do
  reply[#reply + 1] = owner
  reply[#reply + 1] = math.max(0, (alive[owner] or due[owner] or time) - time)
end
return reply
