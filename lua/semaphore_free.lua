-- semaphore_free: the free permits of a semaphore.
--
-- KEYS[1]  semaphore  string, the free permits, which may be below 0; nothing there: none
--
-- REPLY    n  how many

return tonumber(redis.call('GET', KEYS[1])) or 0
