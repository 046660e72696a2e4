-- semaphore_add_expirable: make a semaphore of permits with leases larger or smaller; tell those who wait if it is
-- larger. Its expiry, if it has one, stays.
--
-- KEYS[1]  semaphore  string, the free permits, which may be below 0; nothing there: none
-- KEYS[2]  line       list of waiters, the next one first; their sessions listen on <line>:<session>. It may be
--                     missing, with the one that follows, while a slot moves: nobody stands there then
-- KEYS[3]  alive      sorted set {waiter in line -> server ms}: dead then
--
-- ARGV[1]  n          how many, a whole number, -2^53 < n < 2^53
-- ARGV[2]  publish    PUBLISH or SPUBLISH
-- ARGV[3]  channel    where those wait who are not in the line; in a cluster, of the semaphore's slot
-- ARGV[4]  reach      "0": the server does not count those who listen at others; else "1"
--
-- REPLY    {listeners}   added; that many clients of this server heard of it on the channel
--
-- USES     now read_count permit_publish line_call

local semaphore, n = KEYS[1], tonumber(ARGV[1])
local l = {line = KEYS[2], alive = KEYS[3], publish = ARGV[2], channel = ARGV[3], reach = ARGV[4]}

local free, mistake = read_count(redis.call('GET', semaphore))
if mistake then return mistake end
local total = (free or 0) + n
if math.abs(total) >= 9007199254740992 then
  return redis.error_reply('ERR the free permits would not stay below 2^53')
end
local listeners, waiting = 0, false
-- The message first: a server that refuses it has then changed nothing.
if n > 0 then listeners, waiting = permit_publish(l, ARGV[1]) end
local time = waiting and now()
redis.call('INCRBY', semaphore, ARGV[1])
if waiting then line_call(l, total, time, listeners == 0 and ARGV[1]) end
return {listeners}
