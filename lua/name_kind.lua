-- name_kind: of what kind a name is, as far as its keys show.
--
-- KEYS[1]  name     of any type, the key that has the name
-- KEYS[2]  permits  zset {id -> server ms when the lease is over}; it may be missing, as may those that follow
-- KEYS[3]  due      sorted set {waiter of a fair lock -> server ms}: dead then
--
-- REPLY    lock       a hash: of an rlock or a fair lock, which nobody waits for in a queue
-- REPLY    fairlock   the hash of a lock, and a queue of live waiters
-- REPLY    rwlock     the hash of a read-write lock
-- REPLY    text       a string that is no count: a setlock
-- REPLY    count      a string that is a count: of a semaphore or a latch
-- REPLY    permits    the count of a semaphore, of which permits with leases are taken
-- REPLY    something  a key of another type
-- REPLY    nothing    no key; or the user has no right to look at it
--
-- USES     now read_count

local name, permits, due = KEYS[1], KEYS[2], KEYS[3]

local function look(...)
  local reply = redis.pcall(...)
  return (type(reply) ~= 'table' or not reply.err) and reply, reply
end

local text, refused = look('GET', name)
if text then
  if not read_count(text) then return 'text' end
  return permits and (look('ZCARD', permits) or 0) > 0 and 'permits' or 'count'
end
local fields = look('HMGET', name, 'mode')
if fields and fields[1] then return 'rwlock' end
if (look('HLEN', name) or 0) > 0 then
  return due and (look('ZCOUNT', due, now(), '+inf') or 0) > 0 and 'fairlock' or 'lock'
end
return type(refused) == 'table' and string.find(refused.err, 'WRONGTYPE', 1, true) and 'something' or 'nothing'
