-- rlock_release: lower a lock's hold count; or free it and tell those who wait, or hand it to the first in its line; or
-- leave that line.
-- A copy of the call, however late, finds nothing: wire owners are never used again.
--
-- KEYS[1]  lock     hash {wire owner -> hold count}
-- KEYS[2]  line     list of waiters, the next one first; their sessions listen on <line>:<session>. It may be missing,
--                   with those that follow, while a slot moves: the lock is free then
-- KEYS[3]  alive    sorted set {waiter in line -> server ms}: dead then
-- KEYS[4]  token    string, the last fencing token issued
--
-- ARGV[1]  owner    "<session>:<number>", the wire owner
-- ARGV[2]  target   hold count to leave; 0 frees the lock
-- ARGV[3]  publish  PUBLISH or SPUBLISH
-- ARGV[4]  channel  where those wait who are not in the line; in a cluster, of the lock's slot
-- ARGV[5]  reach    "0": the server does not count those who listen at others; else "1"
-- ARGV[6]  lease    ms, of a lock that the server refuses to free
-- ARGV[7]  waiter   of the owner, which is to be in the line no more; only where it may be
--
-- REPLY    0  the lock is not this owner's
-- REPLY    1  lowered, still held
-- REPLY    n  from 2: freed or handed on, and n - 2 others wait, as far as is known
--
-- USES     lower line_pass line_leave

local lock, owner, target, waiter = KEYS[1], ARGV[1], ARGV[2], ARGV[7]
local l = {
  lock = lock, line = KEYS[2], alive = KEYS[3], token = KEYS[4],
  publish = ARGV[3], channel = ARGV[4], reach = ARGV[5], owner = owner,
}

if target ~= '0' then
  if redis.call('HEXISTS', lock, owner) == 0 then return 0 end
  lower(lock, owner, target)
  return 1
end

local waiting = l.line and redis.call('LLEN', l.line) or 0
if waiting == 0 then
  if redis.call('HDEL', lock, owner) == 0 then return 0 end
  local heard = redis.pcall(l.publish, l.channel, '0')
  if type(heard) == 'number' then return 2 + heard end
  redis.call('HSET', lock, owner, 1) -- a server that refuses the message has changed nothing
  redis.call('PEXPIRE', lock, ARGV[6])
  return heard
end
if waiter then line_leave(l, waiter) end
if redis.call('HEXISTS', lock, owner) == 0 then return 0 end
return 2 + line_pass(l, waiting)
