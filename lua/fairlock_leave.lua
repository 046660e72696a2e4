-- fairlock_leave: undo an acquisition that was given up, whatever became of it: pass the lock on
-- if it was granted, or take the owner out of the queue; and tell whoever is next.
-- A copy of the call, however late, finds nothing: wire owners are never used again.
--
-- KEYS[1]  lock   hash {wire owner -> hold count}
-- KEYS[2]  queue  list of waiting owners, Redisson's and ours, the next one first
-- KEYS[3]  due    sorted set {waiting owner -> server ms}: Redisson takes it for dead then
-- KEYS[4]  ours   list of this toolkit's waiting owners in the order they came
-- KEYS[5]  alive  sorted set {owner in ours -> server ms}: dead then; see fair_life
--
-- ARGV[1]  owner      "<session>:<number>", the wire owner
-- ARGV[2]  java_wait  ms, the longest wait of any Java process on this lock
-- ARGV[3]  publish    PUBLISH or SPUBLISH
-- ARGV[4]  channel    a waiter listens on this followed by its owner; of the lock's slot
-- ARGV[5]  told       the session of a waiter that hears listens on this followed by its id
-- ARGV[6]  reach      "0": the server does not count those who listen at others; else "1"
-- ARGV[7]  lease      ms, of a lock that the server refuses to hand on
--
-- REPLY    0  there was nothing of this owner
-- REPLY    1  it has left the queue
-- REPLY    2  it had the lock, which is freed, or handed on
--
-- USES     now fair_bury fair_forget fair_sweep fair_settle fair_tell fair_pass

local q = {
  lock = KEYS[1], queue = KEYS[2], due = KEYS[3], ours = KEYS[4], alive = KEYS[5],
  java_wait = tonumber(ARGV[2]), publish = ARGV[3], channel = ARGV[4], told = ARGV[5], reach = ARGV[6],
}
local owner = ARGV[1]

local time = now()
local buried = fair_bury(q, time)
if redis.call('HEXISTS', q.lock, owner) == 1 then
  fair_forget(q, owner)
  return fair_pass(q, time, redis.call('LINDEX', q.queue, '0'), owner, ARGV[7]) or 2
end

local head = redis.call('LINDEX', q.queue, '0')
local queued = redis.call('ZSCORE', q.due, owner) or redis.call('ZSCORE', q.alive, owner)
fair_forget(q, owner)
if head == owner or buried then -- maybe nobody else of ours is left to tell the next one
  local pttl = redis.call('PTTL', q.lock)
  local grant
  if pttl == -2 then fair_sweep(q, time) end
  head, grant = fair_settle(q, time, math.max(pttl, 0))
  if pttl == -2 and head then fair_tell(q, head, grant) end
end
return queued and 1 or 0
