-- rwlock_acquire_read: take a read-write lock for reading, raise the owner's count of read holds,
-- or say how long it is taken for writing. An owner that writes may read, too.
-- A copy of the call changes nothing but expiries, which it may extend, and a count that was
-- lowered since; one that comes after its not_after changes nothing at all.
--
-- KEYS[1]  lock     hash {"mode" -> "read" or "write", wire owner -> count of read holds,
--                   wire owner .. ":write" -> count of write holds}, expires with its longest lease
-- KEYS[2]  hold     string, the hold of the owner that has the number target, expires with its
--                   lease: see read_holds
-- KEYS[3]  writers  sorted set {waiting wire owner -> server ms until which it counts}; only if
--                   readers are to wait behind them
--
-- ARGV[1]  owner      "<session>:<number>", the wire owner
-- ARGV[2]  target     count of read holds to raise to
-- ARGV[3]  lease      ms, a whole number, 0 < lease < 2^53
-- ARGV[4]  not_after  server ms; executed later, the call refuses itself
-- ARGV[5]  nested     1: only if the owner has the lock already; 0: in any case
--
-- REPLY    now           held; now in server ms
-- REPLY    {0, now, ms}  taken for writing, or a writer waits, for ms still; -1: it has no expiry
-- REPLY    {-1, 0}       nested, and nothing there of this owner
-- REPLY    {-2, now}     too late: nothing was changed
--
-- USES     check_lease now expire wrong_lock

local lock, hold, writers = KEYS[1], KEYS[2], KEYS[3]
local owner, target, not_after, nested = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[4]), ARGV[5] == '1'
local lease, mistake = check_lease(ARGV[3])
if mistake then return mistake end

local pttl = redis.call('PTTL', lock)
local free = pttl == -2
local mode, count, writing
if not free then
  local fields = redis.call('HMGET', lock, 'mode', owner, owner .. ':write')
  mode, count, writing = fields[1], tonumber(fields[2]), fields[3]
end
local ours = count or writing
if nested and not ours then return {-1, 0} end
if not free and not mode then return wrong_lock() end

local time = now()
if not ours and not free and mode ~= 'read' then return {0, time, pttl} end
if time > not_after then return {-2, time} end
if not ours and writers then
  local last = redis.call('ZRANGE', writers, '-1', '-1', 'WITHSCORES')
  if last[2] and tonumber(last[2]) > time then return {0, time, last[2] - time} end
end

-- The hold's key first: no hold is ever counted that has none.
if not count or redis.call('PTTL', hold) < lease then redis.call('SET', hold, '1', 'PX', ARGV[3]) end
if free then
  redis.call('HSET', lock, 'mode', 'read', owner, target)
  return expire(lock, ARGV[3]) or time
end
if not count or count < target then redis.call('HSET', lock, owner, target) end
if pttl < lease then redis.call('PEXPIRE', lock, ARGV[3]) end
return time
