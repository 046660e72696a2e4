-- lock_trim: make a lock's lease shorter where it is longer than the holds of its owner need it.
-- A copy that is executed at another time than it was sent for changes nothing.
--
-- KEYS[1]  lock        hash {wire owner -> hold count}
-- KEYS[2]  line        list of waiters, the next one first; their sessions listen on <line>:<session>; only of a lock
--                      that has one
--
-- ARGV[1]  owner       "<session>:<number>", the wire owner
-- ARGV[2]  most        ms, a whole number, 0 < most < 2^53: what the longest of its holds needs
-- ARGV[3]  not_before  server ms; executed earlier, by a clock that was set back, the call refuses itself
-- ARGV[4]  not_after   server ms; executed later, the call refuses itself
-- ARGV[5]  publish     PUBLISH or SPUBLISH; only with KEYS[2]: the first in the line looks again, which may have meant
--                      to sleep for as long as the lease was to last
--
-- REPLY    {0, now}   the lock is not this owner's; now in server ms
-- REPLY    now        it lasts no longer than most
-- REPLY    {-2, now}  too early or too late: nothing was changed
--
-- USES     check_lease now

local lock, line = KEYS[1], KEYS[2]
local most, mistake = check_lease(ARGV[2])
if mistake then return mistake end

local time = now()
if time < tonumber(ARGV[3]) or time > tonumber(ARGV[4]) then return {-2, time} end
if redis.call('HEXISTS', lock, ARGV[1]) == 0 then return {0, time} end
if redis.call('PTTL', lock) > most then redis.call('PEXPIRE', lock, ARGV[2]) end
local first = line and redis.pcall('LINDEX', line, '0')
if type(first) == 'string' then
  redis.pcall(ARGV[5], line .. ':' .. string.match(first, '^[^:]*'), 'first')
end
return time
