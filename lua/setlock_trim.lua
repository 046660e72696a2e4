-- setlock_trim: make the lease of a lock that is one string shorter where it is longer than its
-- holder needs it. A copy that is executed at another time than it was sent for changes nothing.
--
-- KEYS[1]  lock        string, the holder's token
--
-- ARGV[1]  token       of the holder
-- ARGV[2]  most        ms, a whole number, 0 < most < 2^53: what the holder needs
-- ARGV[3]  not_before  server ms; executed earlier, by a clock that was set back, the call refuses itself
-- ARGV[4]  not_after   server ms; executed later, the call refuses itself
--
-- REPLY    {0, now}   the lock does not have this token; now in server ms
-- REPLY    {1, now}   it lasts no longer than most
-- REPLY    {-2, now}  too early or too late: nothing was changed
--
-- USES     check_lease now

local lock = KEYS[1]
local most, mistake = check_lease(ARGV[2])
if mistake then return mistake end

local time = now()
if time < tonumber(ARGV[3]) or time > tonumber(ARGV[4]) then return {-2, time} end
if redis.call('GET', lock) ~= ARGV[1] then return {0, time} end
if redis.call('PTTL', lock) > most then redis.call('PEXPIRE', lock, ARGV[2]) end
return {1, time}
