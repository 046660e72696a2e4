-- rwlock_release_read: lower an owner's count of read holds; whose last one goes is out, and the
-- last of all frees the lock and tells the waiters. Where no more than 32 read the lock then
-- expires with the longest read hold that is left; while somebody writes not sooner than it did.
-- A copy of the call, however late, changes nothing that is newer.
--
-- KEYS[1]  lock     hash {"mode" -> "read" or "write", wire owner -> count of read holds,
--                   wire owner .. ":write" -> count of write holds}
-- KEYS[2]  first    string, the owner's hold of number 1, expires with its lease: see read_holds.
--                   Behind it those of the next numbers, as far as they are known to be there, and then:
-- KEYS[i]  waiting  string, is there while some stand in the line of writers. It may be missing, with those that
--                   follow, while a slot moves: none of the line is told then
-- KEYS[i + 1]  line     list of waiters, the next one first; their sessions listen on <line>:<session>
-- KEYS[i + 2]  alive    sorted set {waiter in line -> server ms}: dead then
-- also     the keys of the other holds; in a cluster, of the lock's slot. A reader of whom one may
--          be on another node stays, and so does the lock's expiry
--
-- ARGV[1]  owner    "<session>:<number>", the wire owner
-- ARGV[2]  target   count of read holds to leave
-- ARGV[3]  ceiling  a higher count than this is newer than the call; 0: none is
-- ARGV[4]  lease    ms, a whole number, 0 < lease < 2^53: what the holds that are left need at
--                   least; which of the keys that stay is theirs nobody can tell
-- ARGV[5]  publish  PUBLISH or SPUBLISH
-- ARGV[6]  channel  where waiters listen; in a cluster, of the lock's slot
-- ARGV[7]  reach    "0": the server does not count those who listen at others; else "1"
-- ARGV[8]  known    how many of the owner's holds are in KEYS
--
-- REPLY    0  nothing there of this owner's read holds
-- REPLY    1  lowered, or out, and the lock is still held
-- REPLY    n  from 2: freed, and n - 2 clients of this server listen on the channel
--
-- USES     lower read_drop read_follow

local lock, first = KEYS[1], KEYS[2]
local owner, target, ceiling, lease = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local publish, channel, known = ARGV[5], ARGV[6], tonumber(ARGV[8])

local fields = redis.call('HMGET', lock, 'mode', owner)
local mode, count = fields[1], tonumber(fields[2])
if not count then return 0 end
if count <= target or ceiling > 0 and count > ceiling then return 1 end

if target > 0 then
  lower(lock, owner, target)
  read_drop(lock, owner, target + 1, count)
  if redis.call('PTTL', first) < lease then redis.call('SET', first, '1', 'PX', ARGV[4]) end
  if mode == 'read' then read_follow(lock, nil) end
  return 1
end

if mode == 'write' or redis.call('HLEN', lock) > 2 and read_follow(lock, owner) then
  redis.call('HDEL', lock, owner)
  read_drop(lock, owner, 1, count)
  return 1
end

-- The message first: a server that refuses it has then changed nothing that holds.
local listeners = redis.call(publish, channel, '0')
local i = known + 2
local waiting, line = KEYS[i], KEYS[i + 1]
local some = waiting and count > known and redis.call('DEL', waiting) -- by itself: one of several holds may be over
local gone = redis.call('DEL', unpack(KEYS, 1, waiting and i or i - 1))
read_drop(lock, owner, known + 1, count)
if some == 1 or gone > known + 1 then -- they stand in the line
  -- USES line_next
  line_next({waiting = waiting, line = line, alive = KEYS[i + 2], publish = publish, reach = ARGV[7]})
end
return 2 + listeners
