-- semaphore_resize_expirable: make a semaphore have so many permits, free and taken ones together.
-- Its expiry, if it has one, stays.
--
-- KEYS[1]  semaphore  string, the free permits, which may be below 0; nothing there: none
-- KEYS[2]  permits    zset {id -> server ms when the lease is over; 922337203685477: never}
--
-- ARGV[1]  n          how many, a whole number, 0 <= n < 2^53
-- ARGV[2]  publish    PUBLISH or SPUBLISH
-- ARGV[3]  channel    where waiters listen; in a cluster, of the semaphore's slot
--
-- REPLY    {listeners}   so many clients of this server listen on the channel, if it has changed

local semaphore, permits, n = KEYS[1], KEYS[2], tonumber(ARGV[1])

local free = tonumber(redis.call('GET', semaphore))
local more = n - (free or 0) - redis.call('ZCARD', permits)
if free and more == 0 then return {0} end
-- The message first: a server that refuses it has then changed nothing.
local listeners = redis.call(ARGV[2], ARGV[3], ARGV[1])
redis.call('INCRBY', semaphore, string.format('%.0f', more))
return {listeners}
