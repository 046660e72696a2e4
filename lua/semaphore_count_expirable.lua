-- semaphore_count_expirable: count the permits, after giving back those whose leases are over.
--
-- KEYS[1]  semaphore  string, the free permits, which may be below 0; nothing there: none
-- KEYS[2]  permits    zset {id -> server ms when the lease is over; 922337203685477: never}
-- KEYS[3]  line       list of waiters, the next one first; their sessions listen on <line>:<session>. It may be
--                     missing, with the one that follows, while a slot moves: nobody stands there then
-- KEYS[4]  alive      sorted set {waiter in line -> server ms}: dead then
--
-- ARGV[1]  publish    PUBLISH or SPUBLISH
-- ARGV[2]  channel    where those wait who are not in the line; in a cluster, of the semaphore's slot
-- ARGV[3]  reach      "0": the server does not count those who listen at others; else "1"
--
-- REPLY    {free, taken}  as many are free, and as many taken
-- REPLY    {-3}           more leases are over: to be called again
--
-- USES     now read_count permit_reclaim line_call

local semaphore, permits = KEYS[1], KEYS[2]
local l = {line = KEYS[3], alive = KEYS[4], publish = ARGV[1], channel = ARGV[2], reach = ARGV[3]}

local free, mistake = read_count(redis.call('GET', semaphore))
if mistake then return mistake end
local time, before, more = now(), free
free, more = permit_reclaim(l, semaphore, permits, free, time)
if l.line and free ~= before then line_call(l, free, time) end
if more then return {-3} end
return {free or 0, redis.call('ZCARD', permits)}
