-- latch_set: close a countdown latch, if it is open.
--
-- KEYS[1]  latch    string, the remaining count; nothing there: open
--
-- ARGV[1]  count    a whole number, 0 < count < 2^53
-- ARGV[2]  publish  PUBLISH or SPUBLISH
-- ARGV[3]  channel  where waiters listen; in a cluster, of the latch's slot
--
-- REPLY    0  it is closed already: nothing was changed
-- REPLY    1  closed
--
-- USES     read_count

local latch = KEYS[1]

local left, mistake = read_count(redis.call('GET', latch))
if mistake then return mistake end
if left and left > 0 then return 0 end
-- The message first: a server that refuses it has then changed nothing. It has Java's waiters of
-- an earlier round close their gates.
redis.call(ARGV[2], ARGV[3], '1')
redis.call('SET', latch, ARGV[1])
return 1
