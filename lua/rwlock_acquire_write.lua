-- rwlock_acquire_write: take a read-write lock for writing, whoever waits for it, raise the count of write holds, or
-- say how long it is taken.
-- A copy of the call changes nothing but expiries, which it may extend, and a count that was
-- lowered since; one that comes after its not_after changes nothing at all.
--
-- KEYS[1]  lock     hash {"mode" -> "read" or "write", wire owner -> count of read holds,
--                   wire owner .. ":write" -> count of write holds}, expires with its longest lease
--
-- ARGV[1]  owner      "<session>:<number>", the wire owner
-- ARGV[2]  target     count of write holds to raise to; 1 takes the lock, above 1 never does
-- ARGV[3]  lease      ms, a whole number, 0 < lease < 2^53
-- ARGV[4]  not_after  server ms; executed later, the call refuses itself
--
-- REPLY    now           held; now in server ms
-- REPLY    {0, 0, ms}    taken for ms still; -1: it has no expiry
-- REPLY    {-1, 0}       target above 1, and nothing there of this owner
-- REPLY    {-2, now}     too late: nothing was changed
--
-- USES     check_lease now expire wrong_lock

local lock, owner, target, not_after = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[4])
local lease, mistake = check_lease(ARGV[3])
if mistake then return mistake end

local field = owner .. ':write'
local pttl = redis.call('PTTL', lock)
local free = pttl == -2
local fields = not free and redis.call('HMGET', lock, field, 'mode')
local count = fields and tonumber(fields[1])
if not count then
  if target > 1 then return {-1, 0} end
  if not free then return fields[2] and {0, 0, pttl} or wrong_lock() end
end

local time = now()
if time > not_after then return {-2, time} end

if free then
  redis.call('HSET', lock, 'mode', 'write', field, '1')
  return expire(lock, ARGV[3]) or time
end
if pttl < lease then redis.call('PEXPIRE', lock, ARGV[3]) end
if count < target then redis.call('HSET', lock, field, target) end
return time
