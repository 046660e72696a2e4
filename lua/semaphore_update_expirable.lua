-- semaphore_update_expirable: give a permit another lease from now, longer or shorter.
--
-- KEYS[1]  permits    zset {id -> server ms when the lease is over; 922337203685477: never}
--
-- ARGV[1]  lease       ms, a whole number, 0 < lease < 2^53; 0: without end
-- ARGV[2]  id          16 bytes: of the permit
-- ARGV[3]  not_before  server ms; executed earlier, by a clock that was set back, the call refuses itself
-- ARGV[4]  not_after   server ms; executed later, the call refuses itself
--
-- REPLY    now        done; now in server ms
-- REPLY    {0, now}   it is not taken, or its lease is over
-- REPLY    {-2, now}  too early or too late: nothing was changed
--
-- USES     now permit_deadline

local permits, id = KEYS[1], ARGV[2]

local time = now()
if time < tonumber(ARGV[3]) or time > tonumber(ARGV[4]) then return {-2, time} end
local deadline, mistake = permit_deadline(ARGV[1], time)
if mistake then return mistake end
local present = tonumber(redis.call('ZSCORE', permits, id))
if not present or present <= time then return {0, time} end
-- A server without memory refuses ZADD, unless something was written before: this removes none.
redis.call('ZREM', permits, '')
redis.call('ZADD', permits, 'XX', deadline, id)
return time
