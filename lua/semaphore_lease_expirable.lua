-- semaphore_lease_expirable: how long the lease of a permit lasts yet.
--
-- KEYS[1]  permits  zset {id -> server ms when the lease is over; 922337203685477: never}
--
-- ARGV[1]  id       16 bytes: of the permit
--
-- REPLY    -1  without end
-- REPLY    0   it is not taken, or its lease is over
-- REPLY    ms
--
-- USES     now

local deadline = tonumber(redis.call('ZSCORE', KEYS[1], ARGV[1]))
if deadline == 922337203685477 then return -1 end
return deadline and math.max(deadline - now(), 0) or 0
