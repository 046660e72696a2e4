-- rwlock_holders: who holds one half of a read-write lock, or both, how often, and for how long still.
-- Readers whose holds have all run out are not among them.
--
-- KEYS[1]  lock  hash {"mode" -> "read" or "write", wire owner -> count of read holds,
--                wire owner .. ":write" -> count of write holds}
-- also     the keys of read holds, strings, expire with their holds' leases: see read_holds; in
--          a cluster, of the lock's slot. One that may be on another node may last as the lock does
--
-- ARGV[1]  half   read or write; empty: both
-- ARGV[2]  owner  a wire owner, to tell of that one alone; empty: of all
--
-- REPLY    {owner, count, ms, ...}  owners as texts, without ":write"; ms: -1 no expiry
--
-- USES     read_lease wrong_lock

local lock, half, only = KEYS[1], ARGV[1], ARGV[2]

local fields
if only == '' then
  fields = redis.call('HGETALL', lock)
else
  if half == 'write' then only = only .. ':write' end
  fields = {only, redis.call('HGET', lock, only)}
end
local reply, plain = {}, only == '' and fields[1]
for i = 1, #fields, 2 do
  local owner, count = fields[i], tonumber(fields[i + 1])
  if owner == 'mode' then plain = false end
  local writer = string.match(owner, '^(.*):write$')
  if not writer and string.find(owner, ':write:', 1, true) then writer = owner end -- of Redisson's transactions
  local lasts = 0
  if count and writer and half ~= 'read' then
    owner, lasts = writer, redis.call('PTTL', lock)
  elseif count and not writer and half ~= 'write' then
    lasts = read_lease(lock, owner, count) or redis.call('PTTL', lock)
  end
  if lasts ~= 0 then
    reply[#reply + 1] = owner
    reply[#reply + 1] = count
    reply[#reply + 1] = lasts
  end
end
return plain and wrong_lock() or reply
