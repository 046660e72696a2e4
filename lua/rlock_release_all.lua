-- rlock_release_all: free several locks of one wire owner, and tell the waiters of each.
-- A copy of the call, however late, finds nothing: wire owners are never used again.
--
-- KEYS[i]  lock  hash {wire owner -> hold count}
--
-- ARGV[1]      owner    "<session>:<number>", the wire owner
-- ARGV[2]      publish  PUBLISH or SPUBLISH
-- ARGV[i + 2]  channel  where waiters for KEYS[i] listen; in a cluster, of the lock's slot
--
-- REPLY    {r1, r2, ...}  ri of KEYS[i]: 0 the lock is not this owner's; n from 2: freed, and n - 2
--                         clients of this server listen on the channel

local owner, publish = ARGV[1], ARGV[2]

local reply, held = {}, {}
for i = 1, #KEYS do
  held[i] = redis.call('HEXISTS', KEYS[i], owner) == 1
end
-- The messages first: a server that refuses one has then freed nothing.
for i = 1, #KEYS do
  reply[i] = held[i] and 2 + redis.call(publish, ARGV[i + 2], '0') or 0
end
for i = 1, #KEYS do
  if held[i] then redis.call('DEL', KEYS[i]) end
end
return reply
