-- fairlock_force: free a fair lock whoever holds it, and tell the next in its queue, or hand it to the next.
--
-- KEYS[1]  lock   hash {wire owner -> hold count}
-- KEYS[2]  queue  list of waiting owners, Redisson's and ours, the next one first
-- KEYS[3]  due    sorted set {waiting owner -> server ms}: Redisson takes it for dead then
-- KEYS[4]  ours   list of this toolkit's waiting owners in the order they came
-- KEYS[5]  alive  sorted set {owner in ours -> server ms}: dead then; see fair_life
--
-- ARGV[1]  java_wait  ms, the longest wait of any Java process on this lock
-- ARGV[2]  publish    PUBLISH or SPUBLISH
-- ARGV[3]  channel    a waiter listens on this followed by its owner; of the lock's slot
-- ARGV[4]  told       the session of a waiter that hears listens on this followed by its id
-- ARGV[5]  reach      "0": the server does not count those who listen at others; else "1"
-- ARGV[6]  not_after  server ms; executed later, the call refuses itself: the lock may be
--                     another holder's by then
--
-- REPLY    {0, now}   nobody held it; now in server ms
-- REPLY    now        freed, or handed on
-- REPLY    {-2, now}  too late: nothing was changed
--
-- USES     check_mode now fair_pass

local q = {
  lock = KEYS[1], queue = KEYS[2], due = KEYS[3], ours = KEYS[4], alive = KEYS[5],
  java_wait = tonumber(ARGV[1]), publish = ARGV[2], channel = ARGV[3], told = ARGV[4], reach = ARGV[5],
}

-- HGETALL rather than EXISTS: a key of another type is an error, and stays.
local hold = redis.call('HGETALL', q.lock)
local mistake = check_mode(hold)
if mistake then return mistake end
local time = now()
if not hold[1] then return {0, time} end
if time > tonumber(ARGV[6]) then return {-2, time} end
local head = redis.call('LINDEX', q.queue, '0')
return fair_pass(q, time, head, hold[1], redis.call('PTTL', q.lock), hold[2]) or time
