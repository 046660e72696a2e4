-- semaphore_add: give permits of a semaphore back, or make it larger or smaller, and tell the waiters.
-- Its expiry, if it has one, stays.
--
-- KEYS[1]  semaphore  string, the free permits, which may be below 0; nothing there: none
-- KEYS[2]  line       list of waiters, the next one first; their sessions listen on <line>:<session>. It may be
--                     missing, with the one that follows, while a slot moves: nobody stands there then
-- KEYS[3]  alive      sorted set {waiter in line -> server ms}: dead then
--
-- ARGV[1]  n          how many, a whole number, -2^53 < n < 2^53
-- ARGV[2]  create     1: where there is no semaphore, make one; 0: leave it so
-- ARGV[3]  publish    PUBLISH or SPUBLISH
-- ARGV[4]  channel    where those wait who are not in the line; in a cluster, of the semaphore's slot
-- ARGV[5]  reach      "0": the server does not count those who listen at others; else "1"
--
-- REPLY    {-1}          there is none, and none was made
-- REPLY    {listeners}   added; that many clients of this server heard of it on the channel
--
-- USES     now read_count permit_publish line_call

local semaphore, n = KEYS[1], tonumber(ARGV[1])
local l = {line = KEYS[2], alive = KEYS[3], publish = ARGV[3], channel = ARGV[4], reach = ARGV[5]}

-- A server without memory refuses INCRBY, unless something was written before: GETEX, which changes
-- nothing, passes for that.
local free, mistake = read_count(redis.call('GETEX', semaphore))
if mistake then return mistake end
if not free and ARGV[2] == '0' then return {-1} end
local total = (free or 0) + n
if math.abs(total) >= 9007199254740992 then
  return redis.error_reply('ERR the free permits would not stay below 2^53')
end
-- The message first: a server that refuses it has then changed nothing.
local text = string.format('%.0f', total)
local listeners, waiting = permit_publish(l, text)
local time = waiting and now()
redis.call('INCRBY', semaphore, ARGV[1])
if waiting then line_call(l, total, time, listeners == 0 and text) end
return {listeners}
