-- semaphore_release_expirable: give permits back by their ids, all of them or none, and tell the
-- waiters. A copy of the call, however late, finds none of them: ids are never used again.
--
-- KEYS[1]  semaphore  string, the free permits, which may be below 0; nothing there: none
-- KEYS[2]  permits    zset {id -> server ms when the lease is over; 922337203685477: never}
--
-- ARGV[1]  publish    PUBLISH or SPUBLISH
-- ARGV[2]  channel    where waiters listen; in a cluster, of the semaphore's slot
-- ARGV[i]  id         from 3 on, 16 bytes, each once: of a permit
--
-- REPLY    0  one of them is not taken, or its lease is over: what was still to be is left so
-- REPLY    n  from 2: given back, and n - 2 clients of this server listen on the channel
--
-- USES     now read_count permit_reclaim permit_remove

local semaphore, permits = KEYS[1], KEYS[2]
local n = #ARGV - 2

local free, mistake = read_count(redis.call('GET', semaphore))
if mistake then return mistake end
local time = now()
for i = 3, #ARGV do
  local deadline = tonumber(redis.call('ZSCORE', permits, ARGV[i]))
  if not deadline or deadline <= time then
    permit_reclaim(semaphore, permits, free, time, ARGV[1], ARGV[2])
    return 0
  end
end

-- The message first: a server that refuses it has then changed nothing. Of several permits it says
-- how many came back, of one how many are free.
local said = n
if n == 1 then said = (free or 0) + 1 end
local listeners = redis.call(ARGV[1], ARGV[2], string.format('%.0f', said))
-- A server without memory refuses INCRBY, unless something was written before: this removes none,
-- and shows that ZREM is allowed, while nothing is changed yet.
redis.call('ZREM', permits, '')
redis.call('INCRBY', semaphore, n)
permit_remove(permits, ARGV, 3)
return 2 + listeners
