-- fairlock_acquire: take a fair lock in one's turn, raise its hold count, or stand in its queue.
-- A waiter calls it again before its wait is over, and so stays alive. A copy of the call
-- changes nothing but expiries and deadlines, which it may extend, and a count that was lowered
-- since; one that comes after its not_after changes nothing at all.
--
-- KEYS[1]  lock   hash {wire owner -> hold count}, expires with its longest lease
-- KEYS[2]  queue  list of waiting owners, Redisson's and ours, the next one first
-- KEYS[3]  due    sorted set {waiting owner -> server ms}: Redisson takes it for dead then
-- KEYS[4]  ours   list of this toolkit's waiting owners in the order they came, expires in a day
-- KEYS[5]  alive  sorted set {owner in ours -> server ms}: dead then, expires in a day; see fair_life
-- KEYS[6]  token  string, the last fencing token issued, expires only with ARGV[12]; only with fencing
--
-- The last arguments may be missing, since each takes time to read.
-- ARGV[1]  owner      "<session>:<number>", the wire owner
-- ARGV[2]  not_after  server ms; executed later, the call refuses itself
-- ARGV[3]  lease      ms, a whole number, 0 < lease < 2^53; missing: 30000
-- ARGV[4]  channel    a waiter listens on this followed by its owner; of the lock's slot; missing:
--                     redisson_lock__channel:{<lock>}:
-- ARGV[5]  told       the session of a waiter that hears listens on this followed by its id; missing:
--                     holdfast_fair:{<lock>}:
-- ARGV[6]  target     hold count to raise to; 1 creates the lock, above 1 never does; missing: 1
-- ARGV[7]  wait       ms for which a waiter lives on without calling again; 0: does not wait; missing: 15000
-- ARGV[8]  java_wait  ms, the longest wait of any Java process on this lock; missing: 300000
-- ARGV[9]  publish    PUBLISH or SPUBLISH; missing: PUBLISH
-- ARGV[10] grant      ms, a multiple of 10 up to 10230, for which a release may hand the lock to this
--                     waiter, whose session hears of it; 0, or missing: it does not hear
-- ARGV[11] again      "1": an earlier call of this owner's may have been executed; it gets no other place
-- ARGV[12] ttl        of the token's key, ms, a whole number; missing: that never expires
--
-- REPLY    now                  held, without KEYS[6]; now in server ms
-- REPLY    {1, now, token}      held; a new token of this owner, a copy's too, as a text from 2^53 on
-- REPLY    {0, now, ms, place, listen}  not yet; to be called again after ms, at least 100. place: 0 where
--                               it was, 1 new at the end, 2 back where it was before it was dropped, by
--                               Java or because nobody heard. listen: 1 if it has to listen on its own
--                               channel as well, where Java and older versions tell it that it is its turn
-- REPLY    {0, now, pttl}       taken or promised, and wait is 0; -1: it has no expiry
-- REPLY    {-1, 0}              nothing there to re-enter
-- REPLY    {-1, now}            the waiter's place is gone, and nothing is left of it
-- REPLY    {-2, now}            too late: nothing was changed

local KEYS, ARGV, call = KEYS, ARGV, redis.call -- globals take longer to read
local lock, queue = KEYS[1], KEYS[2]
local owner, lease, target, again = ARGV[1], ARGV[3] or '30000', ARGV[6] or '1', ARGV[11] == '1'

if ARGV[3] and (not string.find(lease, '^[1-9]%d*$') or #lease > 15) then
  -- USES check_lease
  local _, mistake = check_lease(lease)
  if mistake then return mistake end
end

local pttl = call('PTTL', lock)
local free = pttl == -2
local holder, count
if not free then
  local hold = call('HGETALL', lock)
  if hold[3] then
    -- USES check_mode
    local mistake = check_mode(hold)
    if mistake then return mistake end
  end
  holder, count = hold[1], hold[1] == owner and tonumber(hold[2])
end
if not count and target ~= '1' then return {-1, 0} end

local clock = call('TIME')
local time = clock[1] * 1000 + math.floor(clock[2] / 1000)
if time > ARGV[2] + 0 then return {-2, time} end

-- The reply to whoever holds the lock, before it does: a token may be refused. A release that hands the lock on issues
-- none, so a grant and a copy look alike, and both get one: it is higher than all before, and nobody else's.
local function held()
  if not KEYS[6] then return time end
  -- USES token_next token_text
  return {1, time, token_text(KEYS[6], tonumber(token_next(KEYS[6], ARGV[12])))}
end

if count then -- ours already: a grant, a re-entry, or a copy
  local reply = held()
  if count < tonumber(target) then call('HSET', lock, owner, target) end
  if pttl < tonumber(lease) then call('PEXPIRE', lock, lease) end
  return reply
end

-- Nobody becomes the head by standing behind others, so those in front are no concern of a newcomer's.
local head = (free or again) and call('LINDEX', queue, '0')
if free and not head and not again then
  -- USES expire
  local reply = held()
  call('HSET', lock, owner, '1')
  return expire(lock, lease) or reply
end

-- USES expire fair_bury fair_forget fair_sweep fair_settle fair_tell fair_knows

local q = {
  lock = lock, queue = queue, due = KEYS[3], ours = KEYS[4], alive = KEYS[5],
  java_wait = tonumber(ARGV[8] or 300000), publish = ARGV[9] or 'PUBLISH',
  channel = ARGV[4] or 'redisson_lock__channel:{' .. lock .. '}:', told = ARGV[5] or 'holdfast_fair:{' .. lock .. '}:',
}
local wait = tonumber(ARGV[7] or 15000)

local grant, alive, due
if free or again then
  local buried = head and fair_bury(q, time)
  if head and free then
    head, grant, alive, due = fair_sweep(q, time)
  elseif buried then
    head = redis.call('LINDEX', queue, '0')
  end
end

if free and (not head or head == owner) then
  local reply = held()
  if head then -- before the grant: a key of another type refuses, and then nothing is held
    fair_forget(q, owner, true)
    fair_settle(q, time, lease + 0)
  elseif again then -- dropped before, or the server has lost the queue
    fair_forget(q, owner)
  end
  redis.call('HSET', lock, owner, '1')
  return expire(lock, lease) or reply
end
if wait == 0 then
  if free then fair_tell(q, head, grant) end
  return {0, time, pttl}
end

-- Java takes its own wait off the score of everybody behind a waiter of its own that acquires
-- or leaves. So a score says: alive until then, and java_wait more for each of Java's in front.
-- It is written afresh from the two places each time; nothing is carried over.
local left = math.max(pttl, 0)
local place, java = 0, 0
local score, length
local extend = true -- how long ours and alive are kept, but not each time

-- The waiters of ours that stand at the front of ours and that were dropped from the queue.
local function missing()
  local n = 0
  while true do
    local first = redis.call('LINDEX', q.ours, n)
    if not first or first == owner or redis.call('ZSCORE', q.due, first) then return n end
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

-- A removal comes first: a server without memory lets the rest pass then.
local known = redis.call('ZREM', q.due, owner) == 1
local mark = string.find(lock, '{', 1, true) and 0.5 or 0
local ms_granted = tonumber(ARGV[10] or 0)
local asks = ms_granted > 0 and (ms_granted / 10 + mark) / 1024 or 0
local living = redis.call('ZADD', q.alive, string.format('%.17g', time + wait + asks), owner) == 0
if again and not known and not living then
  fair_forget(q, owner)
  return {-1, time}
end

local at = known and (head == owner and 0 or redis.call('LPOS', q.queue, owner))
local before = (at or living) and redis.call('LPOS', q.ours, owner)
if at then
  java = at
  if before then
    java = at > 0 and at - math.max(before - missing(), 0) or 0
  else
    insert(q.ours, q.queue, at) -- lost by the server
  end
  java = math.max(java, 0)
  if at == 0 then
    score = time + math.max(wait, left)
  else
    -- 30 s is Redisson's lease by default: whoever gets the lock next holds it for about that.
    score = time + math.max(wait, left, 30000) + q.java_wait * java
  end
elseif before then
  -- Dropped though it lives: back behind the nearest of ours that was in front of it.
  redis.call('LREM', q.queue, '0', owner) -- there only if the server has lost its score
  insert(q.queue, q.ours, before)
  score = time + math.max(wait, left)
  place, java = 2, 1 -- maybe
else
  if known or living then -- there only if the server has lost the rest
    redis.call('LREM', q.queue, '0', owner)
    redis.call('LREM', q.ours, '0', owner)
  end
  local own
  own, length = redis.call('RPUSH', q.ours, owner), redis.call('RPUSH', q.queue, owner)
  java = length - own
  extend = own == 1 or time % 64 == 0
  if own ~= length and own > 1 and missing() > 0 then
    extend = true
    fair_bury(q, time)
    length = redis.call('LLEN', q.queue)
    java = length - redis.call('LLEN', q.ours) + missing()
  end
  java = math.max(java, 0)
  score = time + (length == 1 and math.max(wait, left) or wait + left) + q.java_wait * java
  place = 1
end
redis.call('ZADD', q.due, string.format('%.0f', score), owner)
if extend then
  redis.call('PEXPIRE', q.ours, '86400000')
  redis.call('PEXPIRE', q.alive, '86400000')
end

if free or again or place ~= 1 then
  head, grant, alive, due = fair_settle(q, time, left)
elseif length == 1 then
  head = owner
end
local ms = wait / 3
if free and head ~= owner then
  fair_tell(q, head, grant) -- the message before may have been lost
  ms = math.min(ms, (alive or due) - time)
elseif head == owner and (free or left > 0) then
  ms = math.min(ms, left + 1)
end
local next = holder or head
local listen = java > 0 or next and not fair_knows(next)
return {0, time, math.max(100, math.floor(ms)), place, listen and 1 or 0}
