-- semaphore_acquire: take permits of a semaphore, if enough are free.
-- A call that comes after its not_after takes none.
--
-- KEYS[1]  semaphore  string, the free permits, which may be below 0; nothing there: none
--
-- ARGV[1]  n          how many, a whole number, 0 < n < 2^53
-- ARGV[2]  not_after  server ms; executed later, the call refuses itself
--
-- REPLY    {1, now, left}  taken; left are free now; now in server ms
-- REPLY    {0, 0, free}    too few are free: that many
-- REPLY    {-2, now}       too late: nothing was changed
--
-- USES     now read_count

local semaphore, n = KEYS[1], tonumber(ARGV[1])

local free, mistake = read_count(redis.call('GET', semaphore))
if mistake then return mistake end
free = free or 0
if free < n then return {0, 0, free} end
local time = now()
if time > tonumber(ARGV[2]) then return {-2, time} end
redis.call('DECRBY', semaphore, ARGV[1])
return {1, time, free - n}
