-- rwlock_renew_read: extend the read holds of many owners, each of its own lock. None is ever
-- shortened.
--
-- KEYS[2 * i - 1]  lock   hash {"mode" -> "read" or "write", wire owner -> count of read holds,
--                         wire owner .. ":write" -> count of write holds}
-- KEYS[2 * i]      first  string, its owner's hold of number 1, expires with its lease: see
--                         read_holds. It stands for all holds of the owner
-- also             the keys of the owners' other read holds; in a cluster, of the lock's slot. One
--                  that is on another node is not extended
--
-- ARGV[1]      lease  ms, a whole number, 0 < lease < 2^53; 1: only to look who has what
-- ARGV[i + 1]  owner  wire owner of the i-th lock
--
-- REPLY    {now, r1, r2, ...}  now in server ms; ri of the i-th lock: 1 extended, n
--                              above that: one lasts longer already, for n ms; 0 no hold of this
--                              owner lives, or the server's error as a text
--
-- USES     check_lease now here read_holds

local lease, mistake = check_lease(ARGV[1])
if mistake then return mistake end
local reply = {now()}

local function renew(lock, first, owner)
  local count = tonumber(redis.call('HGET', lock, owner)) or 0
  local holds, longest = read_holds(lock, owner), 0
  for i = 1, count do
    local pttl = here('PTTL', holds .. i) or 0
    if pttl > 0 and pttl < lease then redis.call('PEXPIRE', holds .. i, ARGV[1]) end
    longest = math.max(longest, pttl)
  end
  if longest == 0 then return 0 end
  if lease == 1 then return longest end
  -- The key that goes last, whose hold may have run out: a release that was sent before does not
  -- know of this renewal, and leaves that key alone.
  if redis.call('PTTL', first) < lease then
    -- Removes nothing: a server that is out of memory refuses SET unless the script has written something before.
    redis.call('HDEL', lock, '')
    redis.call('SET', first, '1', 'PX', ARGV[1])
  end
  if redis.call('PTTL', lock) < lease then redis.call('PEXPIRE', lock, ARGV[1]) end
  return longest > lease and longest or 1
end

for i = 1, #KEYS / 2 do
  local ok, result = pcall(renew, KEYS[2 * i - 1], KEYS[2 * i], ARGV[i + 1])
  if not ok and type(result) == 'table' then result = result.err end
  reply[i + 1] = result
end
return reply
