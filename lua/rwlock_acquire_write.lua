-- rwlock_acquire_write: take a read-write lock for writing, raise the count of write holds, or
-- say how long it is taken.
-- A copy of the call changes nothing but expiries, which it may extend, and a count that was
-- lowered since; one that comes after its not_after changes nothing at all.
--
-- KEYS[1]  lock     hash {"mode" -> "read" or "write", wire owner -> count of read holds,
--                   wire owner .. ":write" -> count of write holds}, expires with its longest lease
-- KEYS[2]  writers  sorted set {waiting wire owner -> server ms until which it counts}, expires
--                   with the last one; only if readers are to wait behind writers
--
-- ARGV[1]  owner      "<session>:<number>", the wire owner
-- ARGV[2]  target     count of write holds to raise to; 1 takes the lock, above 1 never does
-- ARGV[3]  lease      ms, a whole number, 0 < lease < 2^53
-- ARGV[4]  not_after  server ms; executed later, the call refuses itself
-- ARGV[5]  wait       ms for which a waiter counts without calling again, with KEYS[2];
--                     0: it does not wait
--
-- REPLY    {1, now}      held; now in server ms
-- REPLY    {0, 0, ms}    wait is 0, and taken for ms still; -1: it has no expiry
-- REPLY    {0, now, ms}  taken; the waiter counts, and is to call again after ms
-- REPLY    {-1, 0}       target above 1, and nothing there of this owner
-- REPLY    {-2, now}     too late: nothing was changed
--
-- USES     check_lease now expire

local lock, writers = KEYS[1], KEYS[2]
local owner, target, not_after, wait = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[4]), tonumber(ARGV[5])
local lease, mistake = check_lease(ARGV[3])
if mistake then return mistake end

local field = owner .. ':write'
local pttl = redis.call('PTTL', lock)
local free = pttl == -2
local count = not free and tonumber(redis.call('HGET', lock, field))
if not count then
  if target > 1 then return {-1, 0} end
  if not free and wait == 0 then return {0, 0, pttl} end
end

local time = now()
if time > not_after then return {-2, time} end

if free then
  if writers then redis.call('ZREM', writers, owner) end -- first: if that is refused, nothing is held
  redis.call('HSET', lock, 'mode', 'write', field, '1')
  return expire(lock, ARGV[3]) or {1, time}
end
if not count then
  redis.call('ZREMRANGEBYSCORE', writers, '-inf', time)
  redis.call('ZADD', writers, string.format('%.0f', time + wait), owner)
  redis.call('PEXPIRE', writers, ARGV[5])
  local again = math.floor(wait / 3)
  return {0, time, pttl < 0 and again or math.min(pttl, again)}
end
if pttl < lease then redis.call('PEXPIRE', lock, ARGV[3]) end
if count < target then redis.call('HSET', lock, field, target) end
return {1, time}
