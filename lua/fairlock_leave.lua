-- fairlock_leave: undo an acquisition that was given up, whatever became of it: free the lock
-- if it was granted, or take the owner out of the queue; and tell whoever is next.
-- A copy of the call, however late, finds nothing: wire owners are never used again.
--
-- KEYS[1]  lock   hash {wire owner -> hold count}
-- KEYS[2]  queue  list of waiting owners, Redisson's and ours, the next one first
-- KEYS[3]  due    sorted set {waiting owner -> server ms}: Redisson takes it for dead then
-- KEYS[4]  ours   list of this toolkit's waiting owners in the order they came
-- KEYS[5]  alive  sorted set {owner in ours -> server ms}: dead then
--
-- ARGV[1]  owner      "<session>:<number>", the wire owner
-- ARGV[2]  java_wait  ms, the longest wait of any Java process on this lock
-- ARGV[3]  publish    PUBLISH or SPUBLISH
-- ARGV[4]  channel    a waiter listens on this followed by its owner; of the lock's slot
--
-- REPLY    0  there was nothing of this owner
-- REPLY    1  it has left the queue
-- REPLY    2  it had the lock, which is free now
--
-- USES     now fair_bury fair_forget fair_sweep fair_settle fair_pass

local lock = KEYS[1]
local q = {queue = KEYS[2], due = KEYS[3], ours = KEYS[4], alive = KEYS[5]}
local owner, java_wait, publish, channel = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]

local time = now()
local buried = fair_bury(q, time)
if redis.call('HEXISTS', lock, owner) == 1 then
  fair_pass(q, time, java_wait, publish, channel)
  redis.call('DEL', lock)
  return 2
end

local first = redis.call('LINDEX', q.queue, 0) == owner
local queued = redis.call('ZSCORE', q.due, owner) or redis.call('ZSCORE', q.alive, owner)
fair_forget(q, owner)
if first or buried then -- maybe nobody else of ours is left to tell the next one
  local pttl = redis.call('PTTL', lock)
  if pttl == -2 then fair_sweep(q, time) end
  local head = fair_settle(q, time, math.max(pttl, 0), java_wait)
  if pttl == -2 and head then redis.call(publish, channel .. head, '0') end
end
return queued and 1 or 0
