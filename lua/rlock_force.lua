-- rlock_force: free a lock whoever holds it, and tell the waiters, or hand it to the first in its line.
--
-- KEYS[1]  lock       hash {wire owner -> hold count}
-- KEYS[2]  line       list of waiters, the next one first; it may be missing, with those that follow
-- KEYS[3]  alive      sorted set {waiter in line -> server ms}: dead then
-- KEYS[4]  token      string, the last fencing token issued
--
-- ARGV[1]  publish    PUBLISH or SPUBLISH
-- ARGV[2]  channel    where those wait who are not in the line; in a cluster, of the lock's slot
-- ARGV[3]  reach      "0": the server does not count those who listen at others; else "1"
-- ARGV[4]  not_after  server ms; executed later, the call refuses itself: the lock may be
--                     another holder's by then
--
-- REPLY    {0, now}   nobody held it; now in server ms
-- REPLY    now        freed, or handed on
-- REPLY    {-2, now}  too late: nothing was changed
--
-- USES     check_mode now line_pass

local l = {
  lock = KEYS[1], line = KEYS[2], alive = KEYS[3], token = KEYS[4],
  publish = ARGV[1], channel = ARGV[2], reach = ARGV[3],
}

-- HKEYS rather than EXISTS: a key of another type is an error, and stays.
local fields = redis.call('HKEYS', l.lock)
local held, mistake = fields[1], check_mode(fields)
if mistake then return mistake end
local time = now()
if not held then return {0, time} end
if time > tonumber(ARGV[4]) then return {-2, time} end
local waiting = l.line and redis.call('LLEN', l.line) or 0
if waiting == 0 then
  redis.call(l.publish, l.channel, '0')
  redis.call('DEL', l.lock)
else
  line_pass(l, waiting)
end
return time
