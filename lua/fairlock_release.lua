-- fairlock_release: lower a fair lock's hold count, or free it and tell the next in its queue.
-- A copy of the call, however late, finds nothing: wire owners are never used again.
--
-- KEYS[1]  lock   hash {wire owner -> hold count}
-- KEYS[2]  queue  list of waiting owners, Redisson's and ours, the next one first
-- KEYS[3]  due    sorted set {waiting owner -> server ms}: Redisson takes it for dead then
-- KEYS[4]  ours   list of this toolkit's waiting owners in the order they came
-- KEYS[5]  alive  sorted set {owner in ours -> server ms}: dead then
--
-- ARGV[1]  owner      "<session>:<number>", the wire owner
-- ARGV[2]  target     hold count to leave; 0 frees the lock
-- ARGV[3]  java_wait  ms, the longest wait of any Java process on this lock
-- ARGV[4]  publish    PUBLISH or SPUBLISH
-- ARGV[5]  channel    a waiter listens on this followed by its owner; of the lock's slot
--
-- REPLY    0  the lock is not this owner's
-- REPLY    1  lowered, still held
-- REPLY    2  freed
--
-- USES     lower now fair_bury fair_pass

local lock = KEYS[1]
local q = {queue = KEYS[2], due = KEYS[3], ours = KEYS[4], alive = KEYS[5]}
local owner, target = ARGV[1], ARGV[2]

if redis.call('HEXISTS', lock, owner) == 0 then return 0 end
if target ~= '0' then
  lower(lock, owner, target)
  return 1
end
if redis.call('LINDEX', q.queue, 0) then
  local time = now()
  fair_bury(q, time)
  fair_pass(q, time, tonumber(ARGV[3]), ARGV[4], ARGV[5])
end
redis.call('DEL', lock) -- after the message: a server that refuses it has freed nothing
return 2
