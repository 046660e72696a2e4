-- count_value: the count of a semaphore or a latch.
--
-- KEYS[1]  count  string, a whole number, which may be below 0; nothing there: 0
--
-- REPLY    n
--
-- USES     read_count

local count, mistake = read_count(redis.call('GET', KEYS[1]))
return mistake or count or 0
