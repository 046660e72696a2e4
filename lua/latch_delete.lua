-- latch_delete: open a countdown latch whatever its count, and tell the waiters.
--
-- KEYS[1]  latch    string, the remaining count; nothing there: open
--
-- ARGV[1]  publish  PUBLISH or SPUBLISH
-- ARGV[2]  channel  where waiters listen; in a cluster, of the latch's slot
--
-- REPLY    0  it was open
-- REPLY    1  deleted
--
-- USES     read_count

local latch = KEYS[1]

local left, mistake = read_count(redis.call('GET', latch))
if not left then return mistake or 0 end
redis.call(ARGV[1], ARGV[2], '1')
redis.call('DEL', latch)
return 1
