-- semaphore_add: give permits of a semaphore back, or make it larger or smaller, and tell the waiters.
-- Its expiry, if it has one, stays.
--
-- KEYS[1]  semaphore  string, the free permits, which may be below 0; nothing there: none
--
-- ARGV[1]  n          how many, a whole number, -2^53 < n < 2^53
-- ARGV[2]  create     1: where there is no semaphore, make one; 0: leave it so
-- ARGV[3]  publish    PUBLISH or SPUBLISH
-- ARGV[4]  channel    where waiters listen; in a cluster, of the semaphore's slot
--
-- REPLY    {-1}          there is none, and none was made
-- REPLY    {listeners}   added; that many clients of this server listen on the channel
--
-- USES     read_count

local semaphore, n = KEYS[1], tonumber(ARGV[1])

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
local listeners = redis.call(ARGV[3], ARGV[4], string.format('%.0f', total))
redis.call('INCRBY', semaphore, ARGV[1])
return {listeners}
