-- rwlock_renew_read: extend the read holds of many owners, each of its own lock. None is ever
-- shortened.
--
-- KEYS[i]  lock  hash {"mode" -> "read" or "write", wire owner -> count of read holds,
--                wire owner .. ":write" -> count of write holds}
-- also     the keys of the owners' read holds, strings, expire with their holds' leases: see
--          read_holds; in a cluster, of the lock's slot
--
-- ARGV[1]      lease  ms, a whole number, 0 < lease < 2^53
-- ARGV[i + 1]  owner  wire owner of KEYS[i]
--
-- REPLY    {now, r1, r2, ...}  now in server ms; ri of KEYS[i]: 1 extended,
--                              0 no hold of this owner lives, or the server's error as a text
--
-- USES     check_lease now read_holds

local lease, mistake = check_lease(ARGV[1])
if mistake then return mistake end
local reply = {now()}

local function renew(lock, owner)
  local count = tonumber(redis.call('HGET', lock, owner)) or 0
  local holds, alive = read_holds(lock, owner), 0
  for i = 1, count do
    local pttl = redis.call('PTTL', holds .. i)
    if pttl > 0 and pttl < lease then redis.call('PEXPIRE', holds .. i, ARGV[1]) end
    if pttl > 0 then alive = 1 end
  end
  if alive == 0 then return 0 end
  -- The key that goes last, whose hold may have run out: a release that was sent before does not
  -- know of this renewal, and leaves that key alone.
  if redis.call('PTTL', holds .. 1) < lease then redis.call('SET', holds .. 1, '1', 'PX', ARGV[1]) end
  if redis.call('PTTL', lock) < lease then redis.call('PEXPIRE', lock, ARGV[1]) end
  return 1
end

for i = 1, #KEYS do
  local ok, result = pcall(renew, KEYS[i], ARGV[i + 1])
  if not ok and type(result) == 'table' then result = result.err end
  reply[i + 1] = result
end
return reply
