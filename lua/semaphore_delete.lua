-- semaphore_delete: remove a semaphore. Waiters go on waiting until one is made.
--
-- KEYS[1]  semaphore  string, the free permits, which may be below 0; nothing there: none
-- KEYS[2]  permits    zset {id -> server ms when the lease is over}; only of permits with leases
--
-- REPLY    0  there was none
-- REPLY    1  removed
--
-- USES     read_count

local semaphore, permits = KEYS[1], KEYS[2]

local free, mistake = read_count(redis.call('GET', semaphore))
if mistake then return mistake end
if not free and not (permits and redis.call('ZCARD', permits) > 0) then return 0 end
redis.call('DEL', unpack(KEYS))
return 1
