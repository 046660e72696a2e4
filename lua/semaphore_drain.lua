-- semaphore_drain: take all free permits of a semaphore. Its expiry, if it has one, stays. A call that comes after its
-- not_after changes nothing: nobody would ever give back what it took.
--
-- KEYS[1]  semaphore  string, the free permits, which may be below 0; nothing there: none
--
-- ARGV[1]  not_after  server ms; executed later, the call refuses itself
--
-- REPLY    {1, now, n}  how many were taken; below 0: that many were missing, and are not any more; now in server ms
-- REPLY    {-2, now}    too late: nothing was changed
--
-- USES     now read_count

local semaphore = KEYS[1]

local time = now()
if time > tonumber(ARGV[1]) then return {-2, time} end
local free, mistake = read_count(redis.call('GET', semaphore))
if free and free ~= 0 then redis.call('DECRBY', semaphore, string.format('%.0f', free)) end
return mistake or {1, time, free or 0}
