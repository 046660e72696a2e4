-- semaphore_resize_expirable: give a semaphore that many permits, free and taken ones together.
-- Its expiry, if it has one, stays.
--
-- KEYS[1]  semaphore  string, the free permits, which may be below 0; nothing there: none
-- KEYS[2]  permits    zset {id -> server ms when the lease is over; 922337203685477: never}
-- KEYS[3]  line       list of waiters, the next one first; their sessions listen on <line>:<session>. It may be
--                     missing, with the one that follows, while a slot moves: nobody stands there then
-- KEYS[4]  alive      sorted set {waiter in line -> server ms}: dead then
--
-- ARGV[1]  n          how many, a whole number, 0 <= n < 2^53
-- ARGV[2]  publish    PUBLISH or SPUBLISH
-- ARGV[3]  channel    where those wait who are not in the line; in a cluster, of the semaphore's slot
-- ARGV[4]  reach      "0": the server does not count those who listen at others; else "1"
-- ARGV[5]  not_after  server ms; executed later, the call refuses itself: others may have set
--                     another number by then
-- ARGV[6]  new        1: only where there is none; else it is missing. Permits that are taken stay so if the server
--                     has lost their number, and count
--
-- REPLY    {0, now}   it has that many already, or there is one; now in server ms
-- REPLY    now        changed
-- REPLY    {-2, now}  too late: nothing was changed
--
-- USES     now read_count permit_publish line_call

local semaphore, permits, n = KEYS[1], KEYS[2], tonumber(ARGV[1])
local l = {line = KEYS[3], alive = KEYS[4], publish = ARGV[2], channel = ARGV[3], reach = ARGV[4]}

local time = now()
if time > tonumber(ARGV[5]) then return {-2, time} end
local free, mistake = read_count(redis.call('GET', semaphore))
if mistake then return mistake end
local more = n - (free or 0) - redis.call('ZCARD', permits)
if free and (more == 0 or ARGV[6] == '1') then return {0, time} end
-- The message first: a server that refuses it has then changed nothing.
local heard, waiting = permit_publish(l, ARGV[1])
redis.call('INCRBY', semaphore, string.format('%.0f', more))
if waiting then line_call(l, (free or 0) + more, time, heard == 0 and ARGV[1]) end
return time
