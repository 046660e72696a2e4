-- fairlock_force: free a fair lock whoever holds it, and tell the next in its queue.
--
-- KEYS[1]  lock   hash {wire owner -> hold count}
-- KEYS[2]  queue  list of waiting owners, Redisson's and ours, the next one first
-- KEYS[3]  due    sorted set {waiting owner -> server ms}: Redisson takes it for dead then
-- KEYS[4]  ours   list of this toolkit's waiting owners in the order they came
-- KEYS[5]  alive  sorted set {owner in ours -> server ms}: dead then
--
-- ARGV[1]  java_wait  ms, the longest wait of any Java process on this lock
-- ARGV[2]  publish    PUBLISH or SPUBLISH
-- ARGV[3]  channel    a waiter listens on this followed by its owner; of the lock's slot
-- ARGV[4]  not_after  server ms; executed later, the call refuses itself: the lock may be
--                     another holder's by then
--
-- REPLY    {0, now}   nobody held it; now in server ms
-- REPLY    {1, now}   freed
-- REPLY    {-2, now}  too late: nothing was changed
--
-- USES     now fair_bury fair_pass

local lock = KEYS[1]
local q = {queue = KEYS[2], due = KEYS[3], ours = KEYS[4], alive = KEYS[5]}
local not_after = tonumber(ARGV[4])

-- HLEN rather than EXISTS: a key of another type is an error, and stays.
local held = redis.call('HLEN', lock) > 0
local time = now()
if not held then return {0, time} end
if time > not_after then return {-2, time} end
fair_bury(q, time)
fair_pass(q, time, tonumber(ARGV[1]), ARGV[2], ARGV[3])
redis.call('DEL', lock)
return {1, time}
