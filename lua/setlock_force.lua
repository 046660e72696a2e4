-- setlock_force: free a lock that is one string whoever holds it, and tell the waiters.
--
-- KEYS[1]  lock       string, the holder's token
--
-- ARGV[1]  publish    PUBLISH or SPUBLISH
-- ARGV[2]  channel    where waiters of this toolkit listen; in a cluster, of the lock's slot
-- ARGV[3]  not_after  server ms; executed later, the call refuses itself: the lock may be
--                     another holder's by then
--
-- REPLY    {0, now}   nobody held it; now in server ms
-- REPLY    now        freed
-- REPLY    {-2, now}  too late: nothing was changed
--
-- USES     check_token now

local lock = KEYS[1]

-- GET rather than EXISTS: a key of another type is an error, and stays.
local holder = redis.call('GET', lock)
local mistake = holder and check_token(holder, redis.call('PTTL', lock))
if mistake then return mistake end
local time = now()
if not holder then return {0, time} end
if time > tonumber(ARGV[3]) then return {-2, time} end
redis.call(ARGV[1], ARGV[2], '0')
redis.call('DEL', lock)
return time
