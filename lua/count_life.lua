-- count_life: whether there is a semaphore or a latch, and for how long.
--
-- KEYS[1]  count  string, a whole number
--
-- REPLY    ms  until it is gone; -1: it stays; -2: there is none
--
-- USES     read_count

local _, mistake = read_count(redis.call('GET', KEYS[1]))
return mistake or redis.call('PTTL', KEYS[1])
