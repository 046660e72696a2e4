-- semaphore_delete: remove a semaphore. Waiters go on waiting until one is made. A call that comes after its not_after
-- changes nothing: there may be another semaphore by then.
--
-- KEYS[1]  semaphore  string, the free permits, which may be below 0; nothing there: none
-- KEYS[2]  permits    zset {id -> server ms when the lease is over}; only of permits with leases
--
-- ARGV[1]  not_after  server ms; executed later, the call refuses itself
--
-- REPLY    {0, now}   there was none; now in server ms
-- REPLY    now        removed
-- REPLY    {-2, now}  too late: nothing was changed
--
-- USES     now read_count

local semaphore, permits = KEYS[1], KEYS[2]

local time = now()
if time > tonumber(ARGV[1]) then return {-2, time} end
local free, mistake = read_count(redis.call('GET', semaphore))
if mistake then return mistake end
if not free and not (permits and redis.call('ZCARD', permits) > 0) then return {0, time} end
redis.call('DEL', unpack(KEYS))
return time
