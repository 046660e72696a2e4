-- rlock_stand: take a lock, or stand in its line. A release hands the lock to the first in the line. A waiter that
-- stands there calls it again before its time is over. A wire owner gets a place only once, so an entry that is found
-- there has not been granted before. A copy of the call changes nothing but expiries, which it may extend, unless the
-- one before was never executed; one that comes after its not_after changes nothing at all.
--
-- KEYS[1]  lock       hash {wire owner -> hold count}, expires with its longest lease
-- KEYS[2]  line       list of waiters, the next one first, expires in a minute; it may be missing, with those
--                     that follow, while a slot moves: nobody stands then
-- KEYS[3]  alive      sorted set {waiter in line -> server ms}: dead then, expires in a minute
-- KEYS[4]  token      string, the last fencing token issued, expires only with a ttl; only with fencing
--
-- ARGV[1]  waiter     "<owner> <lease>", the wire owner and the ms for which it is granted the lock by a release;
--                     " fenced" behind that: with a token; " fenced:<ttl>": whose key has that time to live, in ms
-- ARGV[2]  lease      ms, a whole number, 0 < lease < 2^53, for which this call takes the lock
-- ARGV[3]  not_after  server ms; executed later, the call refuses itself
-- ARGV[4]  wait       ms for which a waiter lives on without calling again
-- ARGV[5]  again      "1": an earlier call of this waiter's may have been executed; it gets no other place
--
-- REPLY    now                     held, without KEYS[4]; now in server ms
-- REPLY    {1, now, token}         held; token of this owner, as a text from 2^53 on
-- REPLY    {0, now, pttl, listen}  another owner has it for pttl ms; -1: it has no expiry. listen is above 0 for the
--                                  first in the line: 1 if that other one does not know the line, and tells the lock's
--                                  channel, else 2; -1 without KEYS[2]. The lock is to be looked at again in pttl ms,
--                                  too, if it is free for others for a moment
-- REPLY    {-1, now}               another owner has it, and the waiter's place is gone
-- REPLY    {-2, now}               too late: nothing was changed
--
-- USES     check_lease check_mode now expire token_next token_text line_lives

local lock, line, alive, token = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local waiter, again = ARGV[1], ARGV[5] == '1'
local owner, ttl = string.match(waiter, '^%S+'), string.match(waiter, ' fenced:(%d+)$')
local lease, mistake = check_lease(ARGV[2])
if mistake then return mistake end

local pttl = redis.call('PTTL', lock)
local fields = pttl ~= -2 and redis.call('HKEYS', lock) or {}
local holder = fields[1]
if fields[2] then
  mistake = check_mode(fields)
  if mistake then return mistake end
end
local time = now()
if time > tonumber(ARGV[3]) then return {-2, time} end

-- A newcomer overtakes nobody: while some stand in line, a lock is free for others, and for the first, who looks soon.
local next = line and not holder and not again and redis.call('LINDEX', line, '0')
local overtakes = next and line_lives(alive, next, time)

-- A server without memory refuses to add anything, unless something was removed before, be it nothing.
if line then redis.call('ZREM', alive, '') end
if holder == owner or not holder and not overtakes then
  if again and line then
    redis.call('ZREM', alive, waiter)
    redis.call('LREM', line, '0', waiter)
  end
  if holder then -- granted, or a copy
    if pttl < lease then redis.call('PEXPIRE', lock, ARGV[2]) end
    return token and {1, time, token_text(token, tonumber(redis.call('GET', token) or token_next(token, ttl)))} or time
  end
  local issued = token and token_text(token, token_next(token, ttl))
  redis.call('HSET', lock, owner, '1')
  return expire(lock, ARGV[2]) or issued and {1, time, issued} or time
end

if not line then return {0, time, pttl, -1} end
local ahead
if again then
  ahead = redis.call('LPOS', line, waiter)
  if not ahead then return {-1, time} end
else
  ahead = redis.call('RPUSH', line, waiter) - 1
end
redis.call('ZADD', alive, string.format('%.0f', time + ARGV[4]), waiter)
redis.call('PEXPIRE', alive, '60000')
redis.call('PEXPIRE', line, '60000')
if not holder then return {0, time, 10, 0} end
-- Sessions that know the line have UUIDs of version 8, Redisson's of version 4.
if string.sub(holder, 15, 15) == '8' then return {0, time, pttl, ahead == 0 and 2 or 0} end
while true do
  local first = redis.call('LINDEX', line, '0')
  if first == waiter then return {0, time, pttl, 1} end
  if line_lives(alive, first, time) then return {0, time, pttl, 0} end
  redis.call('LPOP', line) -- nobody else would take out one that is dead
  redis.call('ZREM', alive, first)
end
