-- semaphore_delete: remove a semaphore. Who waits goes on waiting, until one is made.
--
-- KEYS[1]  semaphore  string, the free permits, which may be below 0; nothing there: none
-- KEYS[2]  permits    zset {id -> server ms when the lease is over}; only of permits with leases
--
-- REPLY    0  there was none
-- REPLY    1  removed

local semaphore, permits = KEYS[1], KEYS[2]

local there = redis.call('GET', semaphore) or permits and redis.call('ZCARD', permits) > 0
if not there then return 0 end
redis.call('DEL', unpack(KEYS))
return 1
