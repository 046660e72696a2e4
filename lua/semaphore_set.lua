-- semaphore_set: make a semaphore with that many permits, if there is none.
--
-- KEYS[1]  semaphore  string, the free permits, which may be below 0; nothing there: none
-- KEYS[2]  line       list of waiters, the next one first; their sessions listen on <line>:<session>. It may be
--                     missing, with the one that follows, while a slot moves: nobody stands there then
-- KEYS[3]  alive      sorted set {waiter in line -> server ms}: dead then
--
-- ARGV[1]  permits    a whole number, 0 <= permits < 2^53
-- ARGV[2]  ttl        ms after which it is gone; 0: never
-- ARGV[3]  publish    PUBLISH or SPUBLISH
-- ARGV[4]  channel    where those wait who are not in the line; in a cluster, of the semaphore's slot
-- ARGV[5]  reach      "0": the server does not count those who listen at others; else "1"
--
-- REPLY    0  there is one: nothing was changed
-- REPLY    1  made
--
-- USES     now read_count permit_publish line_call

local semaphore, ttl = KEYS[1], ARGV[2]
local l = {line = KEYS[2], alive = KEYS[3], publish = ARGV[3], channel = ARGV[4], reach = ARGV[5]}

local free, mistake = read_count(redis.call('GET', semaphore))
if free or mistake then return mistake or 0 end
-- The message first: a server that refuses it has then changed nothing.
local heard, waiting = permit_publish(l, ARGV[1])
local time = waiting and now()
if ttl == '0' then
  redis.call('SET', semaphore, ARGV[1])
else
  redis.call('SET', semaphore, ARGV[1], 'PX', ttl)
end
if waiting then line_call(l, tonumber(ARGV[1]), time, heard == 0 and ARGV[1]) end
return 1
