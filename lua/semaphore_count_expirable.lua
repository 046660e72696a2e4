-- semaphore_count_expirable: count the permits, after giving back those whose leases are over.
--
-- KEYS[1]  semaphore  string, the free permits, which may be below 0; nothing there: none
-- KEYS[2]  permits    zset {id -> server ms when the lease is over; 922337203685477: never}
--
-- ARGV[1]  publish    PUBLISH or SPUBLISH
-- ARGV[2]  channel    where waiters listen; in a cluster, of the semaphore's slot
--
-- REPLY    {free, taken}  as many are free, and as many taken
-- REPLY    {-3}           more leases are over: to be called again
--
-- USES     now read_count permit_reclaim

local semaphore, permits = KEYS[1], KEYS[2]

local free, mistake = read_count(redis.call('GET', semaphore))
if mistake then return mistake end
local more
free, more = permit_reclaim(semaphore, permits, free, now(), ARGV[1], ARGV[2])
if more then return {-3} end
return {free or 0, redis.call('ZCARD', permits)}
