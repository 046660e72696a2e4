-- rwlock_stand: take a read-write lock for writing, or stand in the line of writers. A waiter in the line is told when
-- its turn comes, and calls again then, and before its time is over. A copy of the call that took the lock
-- changes nothing but expiries, which it may extend; one that comes after its not_after changes nothing at all.
--
-- KEYS[1]  lock     hash {"mode" -> "read" or "write", wire owner -> count of read holds,
--                   wire owner .. ":write" -> count of write holds}, expires with its longest lease
-- KEYS[2]  writers  sorted set {waiting wire owner -> server ms until which it counts}, expires with the last one; it
--                   is there only if readers are to wait behind writers. Behind it, or in its place:
-- KEYS[i]  waiting  string, is there while some stand in the line, so that a release knows it. It may be
--                   missing, with those that follow, while a slot moves: nobody stands there then
-- KEYS[i + 1]  line     list of waiters, the next one first; their sessions listen on <line>:<session>
-- KEYS[i + 2]  alive    sorted set {waiter in line -> server ms}: dead then; all three expire in a minute
--
-- ARGV[1]  owner      "<session>:<number>", the wire owner
-- ARGV[2]  lease      ms, a whole number, 0 < lease < 2^53
-- ARGV[3]  not_after  server ms; executed later, the call refuses itself
-- ARGV[4]  waiter     "<owner> 1"; "": it is to have no place in the line
-- ARGV[5]  wait       ms for which a waiter lives on without calling again
-- ARGV[6]  publish    PUBLISH or SPUBLISH
-- ARGV[7]  reach      "0": the server does not count those who listen at others; else "1"
-- ARGV[8]  prefers    ms for which readers wait behind a waiter that does not call again, with KEYS[2]; else "0"
--
-- REPLY    now                 held; now in server ms
-- REPLY    {0, now, ms, place} taken, or others are in front; it stands in the line if it has a waiter, and is to call
--                              again in ms. place is above 0 for the first in the line: 1 if somebody has the lock who
--                              does not know the line, and tells the lock's channel, else 2; -1 without a line
-- REPLY    {-2, now}           too late: nothing was changed
--
-- USES     check_lease now expire line_drop wrong_lock

local call = redis.call
local lock, owner, waiter, prefers = KEYS[1], ARGV[1], ARGV[4], tonumber(ARGV[8])
local writers, i = KEYS[2], 3
if prefers == 0 then writers, i = nil, 2 end
local waiting, line = KEYS[i], KEYS[i + 1]
local lease, mistake = check_lease(ARGV[2])
if mistake then return mistake end

-- Nothing there: nobody has the lock, and nobody wants to write. A user may have no right to ask for all at once.
local pttl = redis.pcall('EXISTS', unpack(KEYS)) == 0 and -3 or call('PTTL', lock)
local free, some = pttl < -1, pttl ~= -3
local time = now()
if time > tonumber(ARGV[3]) then return {-2, time} end
if not free then
  local fields = call('HMGET', lock, owner .. ':write', 'mode')
  if not fields[2] then return wrong_lock() end
  if fields[1] then
    if pttl < lease then call('PEXPIRE', lock, ARGV[2]) end
    return time
  end
end

local first = true
local l = {line = line, alive = KEYS[i + 2], publish = ARGV[6], reach = ARGV[7]}
if some and line then
  -- USES line_room
  first = line_room(l, 1, waiter, time) > 0
end

if free and first then
  -- What is changed besides comes first: if that is refused, nothing is held.
  if pttl ~= -3 and writers then call('ZREM', writers, owner) end
  if line and pttl ~= -3 then
    line_drop(l, waiter)
    if call('LLEN', line) == 0 then call('DEL', waiting) end
  end
  call('HSET', lock, 'mode', 'write', owner .. ':write', 1)
  return expire(lock, ARGV[2]) or time
end

-- USES line_stand line_call
local again = 4000
if waiter ~= '' then
  if line then
    line_stand(l, waiter, ARGV[5], time)
    call('SET', waiting, '1', 'PX', 60000)
  end
  if writers then
    again = math.floor(prefers / 3)
    call('ZREMRANGEBYSCORE', writers, '-inf', time)
    call('ZADD', writers, string.format('%.0f', time + prefers), owner)
    call('PEXPIRE', writers, ARGV[8])
  end
end
if free then
  line_call(l, 1, time) -- it may be the first to see that one in front is dead
  return {0, time, again, 0}
end
if first and pttl >= 0 and pttl < again then again = pttl end
if not line then return {0, time, again, -1} end
if not first then return {0, time, again, 0} end

-- Sessions that know the line have UUIDs of version 8, Redisson's of version 4.
if call('HLEN', lock) > 34 then return {0, time, again, 1} end
for _, field in ipairs(call('HKEYS', lock)) do
  if field ~= 'mode' and string.sub(field, 15, 15) ~= '8' then return {0, time, again, 1} end
end
return {0, time, again, 2}
