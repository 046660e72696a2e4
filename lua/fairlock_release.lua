-- fairlock_release: lower a fair lock's hold count; or hand it to the next in its queue, or free it and tell the next.
-- A copy of the call, however late, finds nothing: wire owners are never used again.
--
-- KEYS[1]  lock   hash {wire owner -> hold count}
-- KEYS[2]  queue  list of waiting owners, Redisson's and ours, the next one first
-- KEYS[3]  due    sorted set {waiting owner -> server ms}: Redisson takes it for dead then
-- KEYS[4]  ours   list of this toolkit's waiting owners in the order they came
-- KEYS[5]  alive  sorted set {owner in ours -> server ms}: dead then; see fair_life
--
-- The last arguments may be missing, since each takes time to read.
-- ARGV[1]  owner      "<session>:<number>", the wire owner
-- ARGV[2]  lease      ms, of a lock that the server refuses to hand on; missing: 30000
-- ARGV[3]  channel    a waiter listens on this followed by its owner; of the lock's slot; missing:
--                     redisson_lock__channel:{<lock>}:
-- ARGV[4]  told       the session of a waiter that hears listens on this followed by its id; missing:
--                     holdfast_fair:{<lock>}:
-- ARGV[5]  target     hold count to leave; 0, or missing, frees the lock
-- ARGV[6]  java_wait  ms, the longest wait of any Java process on this lock; missing: 300000
-- ARGV[7]  publish    PUBLISH or SPUBLISH; missing: PUBLISH
-- ARGV[8]  reach      "0": the server does not count those who listen at others; else "1", or missing
--
-- REPLY    0  the lock is not this owner's
-- REPLY    1  lowered, still held
-- REPLY    2  freed, or handed on

local KEYS, ARGV, call = KEYS, ARGV, redis.call -- globals take longer to read
local lock, queue, owner, target = KEYS[1], KEYS[2], ARGV[1], ARGV[5]

if target and target ~= '0' then
  -- USES lower
  if call('HEXISTS', lock, owner) == 0 then return 0 end
  lower(lock, owner, target)
  return 1
end

local head = call('LINDEX', queue, '0')
if not head then return 2 * call('HDEL', lock, owner) end

-- USES now fair_pass
local done, reply = pcall(function()
  return fair_pass({
    lock = lock, queue = queue, due = KEYS[3], ours = KEYS[4], alive = KEYS[5],
    java_wait = tonumber(ARGV[6] or 300000), publish = ARGV[7] or 'PUBLISH', reach = ARGV[8],
    channel = ARGV[3] or 'redisson_lock__channel:{' .. lock .. '}:',
    told = ARGV[4] or 'holdfast_fair:{' .. lock .. '}:',
  }, now(), head, owner, ARGV[2] or '30000')
end)
if done then return reply or 2 end
-- The server has refused something, perhaps before it was known whose the lock is.
if call('HEXISTS', lock, owner) == 0 then return 0 end
if type(reply) == 'string' then reply = redis.error_reply(reply) end -- Redis 6
return reply
