-- rlock_force: free a lock whoever holds it, and tell the waiters.
--
-- KEYS[1]  lock       hash {wire owner -> hold count}
--
-- ARGV[1]  publish    PUBLISH or SPUBLISH
-- ARGV[2]  channel    where waiters listen; in a cluster, of the lock's slot
-- ARGV[3]  not_after  server ms; executed later, the call refuses itself: the lock may be
--                     another holder's by then
--
-- REPLY    {0, now}   nobody held it; now in server ms
-- REPLY    {1, now}   freed
-- REPLY    {-2, now}  too late: nothing was changed
--
-- USES     now

local lock, not_after = KEYS[1], tonumber(ARGV[3])

-- HLEN rather than EXISTS: a key of another type is an error, and stays.
local held = redis.call('HLEN', lock) > 0
local time = now()
if not held then return {0, time} end
if time > not_after then return {-2, time} end
redis.call(ARGV[1], ARGV[2], '0')
redis.call('DEL', lock)
return {1, time}
