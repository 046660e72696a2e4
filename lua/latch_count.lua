-- latch_count: the remaining count of a countdown latch.
--
-- KEYS[1]  latch  string, the remaining count; nothing there: open
--
-- REPLY    n  from 0, which is open

local left = tonumber(redis.call('GET', KEYS[1]))
return left and math.max(left, 0) or 0
