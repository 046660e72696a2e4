-- latch_delete: open a countdown latch whatever its count, and tell the waiters. A call that comes after its not_after
-- changes nothing: the latch may have been set again by then.
--
-- KEYS[1]  latch      string, the remaining count; nothing there: open
--
-- ARGV[1]  publish    PUBLISH or SPUBLISH
-- ARGV[2]  channel    where waiters listen; in a cluster, of the latch's slot
-- ARGV[3]  not_after  server ms; executed later, the call refuses itself
--
-- REPLY    {0, now}   it was open; now in server ms
-- REPLY    now        deleted
-- REPLY    {-2, now}  too late: nothing was changed
--
-- USES     now read_count

local latch = KEYS[1]

local time = now()
if time > tonumber(ARGV[3]) then return {-2, time} end
local left, mistake = read_count(redis.call('GET', latch))
if not left then return mistake or {0, time} end
redis.call(ARGV[1], ARGV[2], '1')
redis.call('DEL', latch)
return time
