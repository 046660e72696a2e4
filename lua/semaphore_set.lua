-- semaphore_set: make a semaphore with that many permits, if there is none.
--
-- KEYS[1]  semaphore  string, the free permits, which may be below 0; nothing there: none
--
-- ARGV[1]  permits    a whole number, 0 <= permits < 2^53
-- ARGV[2]  ttl        ms after which it is gone; 0: never
-- ARGV[3]  publish    PUBLISH or SPUBLISH
-- ARGV[4]  channel    where waiters listen; in a cluster, of the semaphore's slot
--
-- REPLY    0  there is one: nothing was changed
-- REPLY    1  made
--
-- USES     read_count

local semaphore, ttl = KEYS[1], ARGV[2]

local free, mistake = read_count(redis.call('GET', semaphore))
if free or mistake then return mistake or 0 end
-- The message first: a server that refuses it has then changed nothing.
redis.call(ARGV[3], ARGV[4], ARGV[1])
if ttl == '0' then
  redis.call('SET', semaphore, ARGV[1])
else
  redis.call('SET', semaphore, ARGV[1], 'PX', ttl)
end
return 1
