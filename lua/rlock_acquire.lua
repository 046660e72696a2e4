-- rlock_acquire: take a lock, raise its hold count, or say how long it is taken.
-- A copy of the call changes nothing but the expiry, which it may extend, and a count that
-- was lowered since; one that comes after its not_after changes nothing at all.
--
-- KEYS[1]  lock       hash {wire owner -> hold count}, expires with its longest lease
-- KEYS[2]  token      string, the last fencing token issued, never expires; only with fencing
--
-- ARGV[1]  owner      "<session>:<number>", the wire owner
-- ARGV[2]  target     hold count to raise to; 1 creates the lock, above 1 never does
-- ARGV[3]  lease      ms, a whole number, 0 < lease < 2^53
-- ARGV[4]  not_after  server ms; executed later, the call refuses itself
-- ARGV[5]  age        "age": tell how long the server has been up; only then it is there
--
-- REPLY    {1, now, token}           held; now in server ms; token of this owner, as a text from 2^53
--                                    on, 0 without KEYS[2]
-- REPLY    {1, now, token, up, run}  the same with ARGV[5]; up in s, -1: the server does not tell,
--                                    0 also if it cannot be what it tells; run: its run id's
--                                    first 48 bits
-- REPLY    {0, 0, pttl}              another owner has it for pttl ms; -1: it has no expiry
-- REPLY    {-1, 0}                   nothing there to re-enter
-- REPLY    {-2, now}                 too late: nothing was changed
--
-- USES     check_lease now expire token_text uptime

local lock, token = KEYS[1], KEYS[2]
local owner, target = ARGV[1], tonumber(ARGV[2])
local not_after = tonumber(ARGV[4])
local lease, mistake = check_lease(ARGV[3])
if mistake then return mistake end

local pttl = redis.call('PTTL', lock)
local free = pttl == -2
local count = not free and tonumber(redis.call('HGET', lock, owner))
if not count then
  if target > 1 then return {-1, 0} end
  if not free then return {0, 0, pttl} end
end

local time = now()
if time > not_after then return {-2, time} end

local function held(issued)
  if not ARGV[5] then return {1, time, issued} end
  return {1, time, issued, uptime(time)}
end

if free then
  local issued = token and token_text(token, redis.call('INCR', token)) or 0
  redis.call('HSET', lock, owner, 1)
  return expire(lock, ARGV[3]) or held(issued)
end

-- Ours already. A first acquisition that finds itself is a copy, its token is the last one
-- issued; a re-entry that wants a token is the first hold of this owner to want one.
local issued = 0
if token then issued = token_text(token, tonumber(target == 1 and redis.call('GET', token) or redis.call('INCR', token))) end
if pttl < lease then redis.call('PEXPIRE', lock, ARGV[3]) end
if count < target then redis.call('HSET', lock, owner, target) end
return held(issued)
