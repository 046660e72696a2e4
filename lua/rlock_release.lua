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
-- The last arguments may be missing, since each takes time to read.
-- ARGV[1]  owner    "<session>:<number>", the wire owner
-- ARGV[2]  lease    ms, of a lock that the server refuses to free; missing: 30000
-- ARGV[3]  channel  where those wait who are not in the line; in a cluster, of the lock's slot; missing:
--                   redisson_lock__channel:{<lock>}
-- ARGV[4]  publish  PUBLISH or SPUBLISH; missing: PUBLISH
-- ARGV[5]  reach    "0": the server does not count those who listen at others; else "1", or missing
-- ARGV[6]  target   hold count to leave; 0, or missing, frees the lock
-- ARGV[7]  waiter   of the owner, or another one of its session, which is to be in the line no more; only where it
--                   may be
--
-- REPLY    0  the lock is not this owner's
-- REPLY    1  lowered, still held
-- REPLY    n  from 2: freed or handed on, and n - 2 others wait, as far as is known

local KEYS, ARGV, call = KEYS, ARGV, redis.call -- globals take longer to read
local lock, line, owner, target = KEYS[1], KEYS[2], ARGV[1], ARGV[6]
local publish, channel = ARGV[4] or 'PUBLISH', ARGV[3] or 'redisson_lock__channel:{' .. lock .. '}'

if target and target ~= '0' then
  -- USES lower
  if call('HEXISTS', lock, owner) == 0 then return 0 end
  lower(lock, owner, target)
  return 1
end

local waiting = line and call('LLEN', line) or 0
if waiting == 0 then
  if call('HDEL', lock, owner) == 0 then return 0 end
  local heard = redis.pcall(publish, channel, '0')
  if heard == 0 or type(heard) == 'number' then return 2 + heard end -- mostly 0, and type is slow
  call('HSET', lock, owner, '1') -- a server that refuses the message has changed nothing
  call('PEXPIRE', lock, ARGV[2] or '30000')
  return heard
end

-- USES line_pass line_leave
local l = {
  lock = lock, line = line, alive = KEYS[3], token = KEYS[4],
  publish = publish, channel = channel, reach = ARGV[5], owner = owner,
}
if ARGV[7] then line_leave(l, ARGV[7]) end
if call('HEXISTS', lock, owner) == 0 then return 0 end
return 2 + line_pass(l, waiting)
