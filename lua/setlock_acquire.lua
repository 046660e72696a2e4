-- setlock_acquire: take a lock that is one string, as SET with NX and PX does, or say for how long it
-- is taken. A copy of the call, if it says that it is one, changes nothing but the expiry, which it
-- may extend; one that comes after its not_after changes nothing at all.
--
-- KEYS[1]  lock       string, the holder's token; expires with its lease
--
-- ARGV[1]  token      of the one who asks
-- ARGV[2]  lease      ms, a whole number, 0 < lease < 2^53
-- ARGV[3]  not_after  server ms; executed later, the call refuses itself
-- ARGV[4]  mode       first: of the calls with this token; again: an earlier one may have been
--                     executed
-- ARGV[5]  age        as that of rlock_acquire
--
-- REPLY    now            held; now in server ms
-- REPLY    {1, now, 0, up, run, mark}  the same with age, as rlock_acquire tells it
-- REPLY    {0, 0, pttl}   another has it for pttl ms; -1: it has no expiry
-- REPLY    {-2, now}      too late: nothing was changed

local call = redis.call
local lock, token, lease, mode = KEYS[1], ARGV[1], ARGV[2], ARGV[4]

if not string.find(lease, '^[1-9]%d*$') or #lease > 15 then
  -- USES check_lease
  local _, mistake = check_lease(lease)
  if mistake then return mistake end
end

local holder = call('GET', lock)
local ours = holder == token and mode ~= 'first'
if holder and not ours then
  -- USES check_token
  local pttl = call('PTTL', lock)
  return check_token(holder, pttl) or {0, 0, pttl}
end

local clock = call('TIME')
local time = clock[1] * 1000 + clock[2] / 1000 -- a reply has whole ms
if time > ARGV[3] + 0 then return {-2, time} end
if not ours then
  call('SET', lock, token, 'PX', lease)
elseif call('PTTL', lock) < tonumber(lease) then
  call('PEXPIRE', lock, lease)
end
if not ARGV[5] or ARGV[5] == tostring(redis) then return time end
-- USES uptime
return {1, time, 0, uptime(time)}
