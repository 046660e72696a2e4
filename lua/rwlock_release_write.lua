-- rwlock_release_write: lower the count of write holds, or give up writing and tell the waiters:
-- the lock is free then, or, if its owner reads as well, others may read with it. A waiter
-- that the lock was not granted to no longer counts.
-- A copy of the call, however late, finds nothing: wire owners are never used again, and none
-- that reads may write.
--
-- KEYS[1]  lock     hash {"mode" -> "read" or "write", wire owner -> count of read holds,
--                   wire owner .. ":write" -> count of write holds}
-- KEYS[2]  writers  sorted set {waiting wire owner -> server ms until which it counts}; only to
--                   undo an acquisition behind whose owner readers may wait
-- also     the keys of the owner's read holds, strings, expire with their holds' leases: see
--          read_holds; in a cluster, of the lock's slot. If one may be on another node the lock
--          expires when it did
--
-- ARGV[1]  owner    "<session>:<number>", the wire owner
-- ARGV[2]  target   count of write holds to leave
-- ARGV[3]  publish  PUBLISH or SPUBLISH
-- ARGV[4]  channel  where waiters listen; in a cluster, of the lock's slot
--
-- REPLY    0  nothing there of this owner
-- REPLY    1  lowered, still held; or it has left the writers
-- REPLY    n  from 2: given up, and n - 2 clients of this server listen on the channel
--
-- USES     lower read_lease

local lock, writers = KEYS[1], KEYS[2]
local owner, target, publish, channel = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local field = owner .. ':write'
local left = writers and redis.call('ZREM', writers, owner) == 1
local counts = redis.call('HMGET', lock, field, owner)
if not counts[1] then
  if not left then return 0 end
  redis.call(publish, channel, '1') -- readers may have waited behind it
  return 1
end
if target ~= '0' then
  lower(lock, field, target)
  return 1
end

local lasts = read_lease(lock, owner, tonumber(counts[2]) or 0)
-- The message first: a server that refuses it has then changed nothing.
local listeners = redis.call(publish, channel, '1')
if lasts ~= 0 then
  redis.call('HDEL', lock, field)
  redis.call('HSET', lock, 'mode', 'read')
  if lasts then redis.call('PEXPIRE', lock, lasts) end
else
  redis.call('DEL', lock)
end
return 2 + listeners
