-- rlock_release: lower a lock's hold count, or free it and tell the waiters.
-- A copy of the call, however late, finds nothing: wire owners are never used again.
--
-- KEYS[1]  lock     hash {wire owner -> hold count}
--
-- ARGV[1]  owner    "<session>:<number>", the wire owner
-- ARGV[2]  target   hold count to leave; 0 frees the lock
-- ARGV[3]  publish  PUBLISH or SPUBLISH
-- ARGV[4]  channel  where waiters listen; in a cluster, of the lock's slot
--
-- REPLY    0  the lock is not this owner's
-- REPLY    1  lowered, still held
-- REPLY    n  from 2: freed, and n - 2 clients of this server listen on the channel
--
-- USES     lower

local lock = KEYS[1]
local owner, target = ARGV[1], ARGV[2]

if redis.call('HEXISTS', lock, owner) == 0 then return 0 end
if target ~= '0' then
  lower(lock, owner, target)
  return 1
end

-- The message first: a server that refuses it has then changed nothing, and
-- nobody sees it before the script is done.
local listeners = redis.call(ARGV[3], ARGV[4], '0')
redis.call('DEL', lock)
return 2 + listeners
