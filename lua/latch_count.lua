-- latch_count: the remaining count of a countdown latch.
--
-- KEYS[1]  latch  string, the remaining count; nothing there: open
--
-- REPLY    n  from 0, which is open
--
-- USES     read_count

local left, mistake = read_count(redis.call('GET', KEYS[1]))
return mistake or math.max(left or 0, 0)
