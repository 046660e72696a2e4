-- latch_set: close a countdown latch, if it is open. A call that comes after its not_after changes nothing: the latch
-- may have been closed and counted down by then, and nobody would count this one down.
--
-- KEYS[1]  latch      string, the remaining count; nothing there: open
--
-- ARGV[1]  count      a whole number, 0 < count < 2^53
-- ARGV[2]  publish    PUBLISH or SPUBLISH
-- ARGV[3]  channel    where waiters listen; in a cluster, of the latch's slot
-- ARGV[4]  not_after  server ms; executed later, the call refuses itself
--
-- REPLY    {0, now}   it is closed already: nothing was changed; now in server ms
-- REPLY    now        closed
-- REPLY    {-2, now}  too late: nothing was changed
--
-- USES     now read_count

local latch = KEYS[1]

local time = now()
if time > tonumber(ARGV[4]) then return {-2, time} end
local left, mistake = read_count(redis.call('GET', latch))
if mistake then return mistake end
if left and left > 0 then return {0, time} end
-- The message first: a server that refuses it has then changed nothing. It has Java's waiters of
-- an earlier round close their gates.
redis.call(ARGV[2], ARGV[3], '1')
redis.call('SET', latch, ARGV[1])
return time
