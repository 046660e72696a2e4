-- rlock_release_all: free several locks of one wire owner, and tell those who wait for each, or hand it to the first in
-- its line.
-- A copy of the call, however late, finds nothing: wire owners are never used again.
--
-- KEYS[4 * i - 3]  lock   hash {wire owner -> hold count}
-- KEYS[4 * i - 2]  line   list of waiters, the next one first
-- KEYS[4 * i - 1]  alive  sorted set {waiter in line -> server ms}: dead then
-- KEYS[4 * i]      token  string, the last fencing token issued
--
-- ARGV[1]          owner    "<session>:<number>", the wire owner
-- ARGV[2]          publish  PUBLISH or SPUBLISH
-- ARGV[3]          reach    "0": the server does not count those who listen at others; else "1"
-- ARGV[i + 3]      channel  where those wait for the i-th lock who are not in its line; in a cluster, of its slot
--
-- REPLY    {r1, r2, ...}  ri of the i-th lock: 0 it is not this owner's; n from 2: freed or handed on, and n - 2
--                         others wait, as far as is known
--
-- USES     line_pass

local owner = ARGV[1]

local locks, reply, waiting = {}, {}, {}
for i = 1, #KEYS / 4 do
  local l = {
    lock = KEYS[4 * i - 3], line = KEYS[4 * i - 2], alive = KEYS[4 * i - 1], token = KEYS[4 * i],
    publish = ARGV[2], reach = ARGV[3], channel = ARGV[i + 3], owner = owner,
  }
  locks[i], reply[i] = l, 0
  waiting[i] = redis.call('HEXISTS', l.lock, owner) == 1 and redis.call('LLEN', l.line)
  if (waiting[i] or 0) > 0 then redis.call('ZSCORE', l.alive, '') end -- a key of another type ends it here
end
-- The messages first: a server that refuses one has then freed nothing.
for i, l in ipairs(locks) do
  if waiting[i] == 0 then reply[i] = 2 + redis.call(l.publish, l.channel, '0') end
end
for i, l in ipairs(locks) do
  if waiting[i] == 0 then
    redis.call('DEL', l.lock)
  elseif waiting[i] then
    reply[i] = 2 + line_pass(l, waiting[i])
  end
end
return reply
