-- semaphore_drain: take all free permits of a semaphore. Its expiry, if it has one, stays.
--
-- KEYS[1]  semaphore  string, the free permits, which may be below 0; nothing there: none
--
-- REPLY    n  how many were taken; below 0: that many were missing, and are not any more
--
-- USES     read_count

local semaphore = KEYS[1]

local free, mistake = read_count(redis.call('GET', semaphore))
if free and free ~= 0 then redis.call('DECRBY', semaphore, string.format('%.0f', free)) end
return mistake or free or 0
