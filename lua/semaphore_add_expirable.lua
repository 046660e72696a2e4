-- semaphore_add_expirable: make a semaphore of permits with leases larger or smaller; tell those
-- who wait if it is larger. Its expiry, if it has one, stays.
--
-- KEYS[1]  semaphore  string, the free permits, which may be below 0; nothing there: none
--
-- ARGV[1]  n          how many, a whole number, -2^53 < n < 2^53
-- ARGV[2]  publish    PUBLISH or SPUBLISH
-- ARGV[3]  channel    where waiters listen; in a cluster, of the semaphore's slot
--
-- REPLY    {listeners}   added; that many clients of this server listen on the channel, if told
--
-- USES     read_count

local semaphore, n = KEYS[1], tonumber(ARGV[1])

local free, mistake = read_count(redis.call('GET', semaphore))
if mistake then return mistake end
local total = (free or 0) + n
if math.abs(total) >= 9007199254740992 then
  return redis.error_reply('ERR the free permits would not stay below 2^53')
end
local listeners = 0
-- The message first: a server that refuses it has then changed nothing.
if n > 0 then listeners = redis.call(ARGV[2], ARGV[3], ARGV[1]) end
redis.call('INCRBY', semaphore, ARGV[1])
return {listeners}
