-- rwlock_trim_read: make the leases of an owner's read holds shorter where they are longer than its
-- longest one needs; the lock, while nobody writes, then expires with the longest read hold of all.
-- A copy that is executed at another time than it was sent for changes nothing.
--
-- KEYS[1]  lock        hash {"mode" -> "read" or "write", wire owner -> count of read holds,
--                      wire owner .. ":write" -> count of write holds}
-- also     the keys of read holds, strings, expire with their holds' leases: see read_holds; in a
--          cluster, of the lock's slot. One that is on another node keeps its lease
--
-- ARGV[1]  owner       "<session>:<number>", the wire owner
-- ARGV[2]  most        ms, a whole number, 0 < most < 2^53: what the longest of its holds needs
-- ARGV[3]  not_before  server ms; executed earlier, by a clock that was set back, the call refuses itself
-- ARGV[4]  not_after   server ms; executed later, the call refuses itself
--
-- REPLY    {0, now}   nothing there of this owner's read holds; now in server ms
-- REPLY    now        none of them lasts longer than most
-- REPLY    {-2, now}  too early or too late: nothing was changed
--
-- USES     check_lease now here read_holds read_follow

local lock, owner = KEYS[1], ARGV[1]
local most, mistake = check_lease(ARGV[2])
if mistake then return mistake end

local time = now()
if time < tonumber(ARGV[3]) or time > tonumber(ARGV[4]) then return {-2, time} end
local fields = redis.call('HMGET', lock, 'mode', owner)
local count = tonumber(fields[2])
if not count then return {0, time} end
local holds = read_holds(lock, owner)
for i = 1, count do
  if (here('PTTL', holds .. i) or 0) > most then here('PEXPIRE', holds .. i, ARGV[2]) end
end
if fields[1] == 'read' then read_follow(lock, nil) end
return time
