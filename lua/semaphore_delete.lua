-- semaphore_delete: remove a semaphore. Who waits goes on waiting, until one is made.
--
-- KEYS[1]  semaphore  string, the free permits, which may be below 0; nothing there: none
--
-- REPLY    0  there was none
-- REPLY    1  removed

local semaphore = KEYS[1]

if not redis.call('GET', semaphore) then return 0 end
return redis.call('DEL', semaphore)
