-- latch_count_down: lower the count of a countdown latch by one; at zero open it and tell the waiters.
-- An open latch stays as it is.
--
-- KEYS[1]  latch    string, the remaining count; nothing there: open
--
-- ARGV[1]  publish  PUBLISH or SPUBLISH
-- ARGV[2]  channel  where waiters listen; in a cluster, of the latch's slot
--
-- REPLY    n  the count that is left
--
-- USES     read_count

local latch = KEYS[1]

-- A server without memory refuses DECR, unless something was written before: GETEX, which changes
-- nothing, passes for that.
local left, mistake = read_count(redis.call('GETEX', latch))
if mistake then return mistake end
if left and left > 1 then return redis.call('DECR', latch) end
if left == 1 then redis.call(ARGV[1], ARGV[2], '0') end -- before what it tells of: it may be refused
if left then redis.call('DEL', latch) end
return 0
