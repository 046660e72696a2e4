-- rlock_force: free a lock whoever holds it, and tell those who wait.
--
-- KEYS[1]  lock     hash {wire owner -> hold count}
--
-- ARGV[1]  publish  PUBLISH or SPUBLISH
-- ARGV[2]  channel  where waiters listen; in a cluster, of the lock's slot
--
-- REPLY    0  nobody held it
-- REPLY    1  freed

local lock = KEYS[1]

-- HLEN rather than EXISTS: a key of another type is an error, and stays.
if redis.call('HLEN', lock) == 0 then return 0 end
redis.call(ARGV[1], ARGV[2], '0')
redis.call('DEL', lock)
return 1
