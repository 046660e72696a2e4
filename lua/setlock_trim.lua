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
-- REPLY    now        it lasts no longer than most
-- REPLY    {-2, now}  too early or too late: nothing was changed
--
-- USES     trim_lock

local lock = KEYS[1]

return trim_lock(lock, ARGV[2], ARGV[3], ARGV[4], function() return redis.call('GET', lock) == ARGV[1] end)
