-- fairlock_acquire: take a fair lock in one's turn, raise its hold count, or stand in its queue.
-- A waiter calls it again before its wait is over, and so stays alive. A copy of the call
-- changes nothing but expiries and deadlines, which it may extend, and a count that was lowered
-- since; one that comes after its not_after changes nothing at all.
--
-- KEYS[1]  lock   hash {wire owner -> hold count}, expires with its longest lease
-- KEYS[2]  queue  list of waiting owners, Redisson's and ours, the next one first
-- KEYS[3]  due    sorted set {waiting owner -> server ms}: Redisson takes it for dead then
-- KEYS[4]  ours   list of this toolkit's waiting owners in the order they came, expires in a day
-- KEYS[5]  alive  sorted set {owner in ours -> server ms}: dead then, expires in a day
--
-- ARGV[1]  owner      "<session>:<number>", the wire owner
-- ARGV[2]  target     hold count to raise to; 1 creates the lock, above 1 never does
-- ARGV[3]  lease      ms, a whole number, 0 < lease < 2^53
-- ARGV[4]  not_after  server ms; executed later, the call refuses itself
-- ARGV[5]  wait       ms for which a waiter lives on without calling again; 0: does not wait
-- ARGV[6]  java_wait  ms, the longest wait of any Java process on this lock
-- ARGV[7]  publish    PUBLISH or SPUBLISH
-- ARGV[8]  channel    a waiter listens on this followed by its owner; of the lock's slot
--
-- REPLY    {1, now}             held; now in server ms
-- REPLY    {0, now, ms, place}  not yet; to be called again after ms, at least 100. place: 0 where it
--                               was, 1 new at the end, 2 back where it was before Java dropped it
-- REPLY    {0, now, pttl}       taken or promised, and wait is 0; -1: it has no expiry
-- REPLY    {-1, 0}              nothing there to re-enter
-- REPLY    {-2, now}            too late: nothing was changed
--
-- USES     check_lease now expire fair_pop fair_bury fair_sweep fair_settle

local lock = KEYS[1]
local q = {queue = KEYS[2], due = KEYS[3], ours = KEYS[4], alive = KEYS[5]}
local owner, target = ARGV[1], tonumber(ARGV[2])
local not_after, wait, java_wait = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local publish, channel = ARGV[7], ARGV[8]
local lease, mistake = check_lease(ARGV[3])
if mistake then return mistake end

local pttl = redis.call('PTTL', lock)
local free = pttl == -2
local count = not free and tonumber(redis.call('HGET', lock, owner))
if not count and target > 1 then return {-1, 0} end
local time = now()
if time > not_after then return {-2, time} end

if count then -- ours already: a re-entry, or a copy
  if count < target then redis.call('HSET', lock, owner, target) end
  if pttl < lease then redis.call('PEXPIRE', lock, ARGV[3]) end
  return {1, time}
end

local head, alive, due = redis.call('LINDEX', q.queue, 0), nil, nil
if head then
  local buried = fair_bury(q, time)
  if free then
    head, alive, due = fair_sweep(q, time)
  elseif buried then
    head = redis.call('LINDEX', q.queue, 0)
  end
end

if free and (not head or head == owner) then
  if head then -- before the grant: a key of another type refuses, and then nothing is held
    fair_pop(q, owner)
    fair_settle(q, time, lease, java_wait)
  end
  redis.call('HSET', lock, owner, 1)
  return expire(lock, ARGV[3]) or {1, time}
end
if wait == 0 then
  if free then redis.call(publish, channel .. head, '0') end
  return {0, time, pttl}
end

-- Java takes its own wait off the score of everybody behind a waiter of its own that acquires
-- or leaves. So a score says: alive until then, and java_wait more for each of Java's in front.
-- It is written afresh from the two places each time; nothing is carried over.
local left = math.max(pttl, 0)
local place = 0
local score

-- The waiters of ours that stand at the front of ours and that Java has dropped.
local function missing()
  local n = 0
  while true do
    local first = redis.call('LINDEX', q.ours, n)
    if not first or redis.call('ZSCORE', q.due, first) then return n end
    n = n + 1
  end
end

-- Puts the owner into a list, behind the nearest of those that stand in front of a place in another.
local function insert(list, other, at)
  while at > 0 do
    at = at - 1
    if redis.call('LINSERT', list, 'AFTER', redis.call('LINDEX', other, at), owner) > 0 then return end
  end
  redis.call('LPUSH', list, owner)
end

local known, living = redis.call('ZSCORE', q.due, owner), redis.call('ZSCORE', q.alive, owner)
local at = known and (head == owner and 0 or redis.call('LPOS', q.queue, owner))
local before = (at or living) and redis.call('LPOS', q.ours, owner)
if at then
  if not before then insert(q.ours, q.queue, at) end -- lost by the server
  if at == 0 then
    score = time + math.max(wait, left)
  else
    local java = at
    if before then java = at - math.max(before - missing(), 0) end
    -- 30 s is Redisson's lease by default: whoever gets the lock next holds it for about that.
    score = time + math.max(wait, left, 30000) + java_wait * math.max(java, 0)
  end
elseif before then
  -- Java dropped it though it lives: back behind the nearest of ours that was in front of it.
  redis.call('LREM', q.queue, 0, owner) -- there only if the server has lost its score
  insert(q.queue, q.ours, before)
  score = time + math.max(wait, left)
  place = 2
else
  local java = redis.call('LLEN', q.queue) - (redis.call('LLEN', q.ours) - missing())
  score = time + left + wait + java_wait * math.max(java, 0)
  redis.call('LREM', q.queue, 0, owner) -- there only if the server has lost the rest
  redis.call('LREM', q.ours, 0, owner)
  redis.call('RPUSH', q.queue, owner)
  redis.call('RPUSH', q.ours, owner)
  place = 1
end
redis.call('ZADD', q.due, string.format('%.0f', score), owner)
redis.call('ZADD', q.alive, string.format('%.0f', time + wait), owner)
redis.call('PEXPIRE', q.ours, 86400000)
redis.call('PEXPIRE', q.alive, 86400000)

head, alive, due = fair_settle(q, time, left, java_wait)
local again = wait / 3
if free and head ~= owner then
  redis.call(publish, channel .. head, '0') -- the message before may have been lost
  again = math.min(again, (alive or due) - time)
elseif head == owner and (free or left > 0) then
  again = math.min(again, left + 1)
end
return {0, time, math.max(100, math.floor(again)), place}
