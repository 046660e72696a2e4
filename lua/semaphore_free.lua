-- semaphore_free: the free permits of a semaphore.
--
-- KEYS[1]  semaphore  string, the free permits, which may be below 0; nothing there: none
--
-- REPLY    n  how many
--
-- USES     read_count

local free, mistake = read_count(redis.call('GET', KEYS[1]))
return mistake or free or 0
