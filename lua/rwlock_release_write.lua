-- rwlock_release_write: lower the count of write holds, or give up writing and tell the waiters:
-- the lock is free then, or, if its owner reads as well, others may read with it. A waiter
-- that the lock was not granted to leaves the line.
-- A copy of the call, however late, finds nothing: wire owners are never used again, and none
-- that reads may write.
--
-- KEYS[1]  lock     hash {"mode" -> "read" or "write", wire owner -> count of read holds,
--                   wire owner .. ":write" -> count of write holds}
-- KEYS[2]  writers  sorted set {waiting wire owner -> server ms until which it counts}; only to
--                   undo an acquisition behind whose owner readers may wait. Behind it, or in its place:
-- KEYS[i]  waiting  string, is there while some stand in the line. It may be missing, with those that follow, while a
--                   slot moves: none of the line is told then
-- KEYS[i + 1]  line     list of waiters, the next one first; their sessions listen on <line>:<session>
-- KEYS[i + 2]  alive    sorted set {waiter in line -> server ms}: dead then
-- also     the keys of the owner's read holds, strings, expire with their holds' leases: see
--          read_holds; in a cluster, of the lock's slot. If one may be on another node the lock
--          expires when it did
--
-- ARGV[1]  owner    "<session>:<number>", the wire owner
-- ARGV[2]  target   count of write holds to leave
-- ARGV[3]  publish  PUBLISH or SPUBLISH
-- ARGV[4]  channel  where waiters listen; in a cluster, of the lock's slot
-- ARGV[5]  reach    "0": the server does not count those who listen at others; else "1"
-- ARGV[6]  waiter   of the owner, which is to be in the line no more; only where it may be
-- ARGV[7]  prefers  anything: KEYS[2] is there
--
-- REPLY    0  nothing there of this owner
-- REPLY    1  lowered, still held; or it has left the writers
-- REPLY    n  from 2: given up, and n - 2 clients of this server listen on the channel

local call = redis.call
local lock, owner, target, publish, channel, waiter = KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[6]
local i = ARGV[7] and 3 or 2
local waiting, line = KEYS[i], KEYS[i + 1]
local l = {waiting = waiting, line = line, alive = KEYS[i + 2], publish = publish, reach = ARGV[5]}

local left = 0
if waiter then
  -- USES line_drop line_call
  if ARGV[7] then left = call('ZREM', KEYS[2], owner) end
  if line then
    local first = call('LINDEX', line, 0) == waiter
    if line_drop(l, waiter) > 0 then left = 1 end
    if call('LLEN', line) == 0 then call('DEL', waiting) end
    if first then line_call(l, 1) end -- the next one may have to listen in its place
  end
end

local field = owner .. ':write'
local counts = call('HMGET', lock, field, owner)
if not counts[1] then
  if ARGV[7] and left > 0 then call(publish, channel, '1') end -- readers may have waited behind it
  return left
end
if target ~= '0' then
  -- USES lower
  lower(lock, field, target)
  return 1
end

local lasts = 0
if counts[2] then
  -- USES read_lease
  lasts = read_lease(lock, owner, tonumber(counts[2]) or 0)
end
-- The message first: a server that refuses it has then changed nothing.
local listeners = call(publish, channel, '1')
if lasts ~= 0 then
  call('HDEL', lock, field)
  call('HSET', lock, 'mode', 'read')
  if lasts then call('PEXPIRE', lock, lasts) end
elseif call('DEL', lock, waiting or lock) > 1 then
  -- USES line_next
  line_next(l)
end
return 2 + listeners
