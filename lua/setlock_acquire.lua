-- setlock_acquire: take a lock that is one string, as SET with NX and PX does, or say for how long it
-- is taken. A copy of the call, if it says that it is one, changes nothing but the expiry, which it
-- may extend; one that comes after its not_after changes nothing at all.
--
-- KEYS[1]  lock       string, the holder's token; expires with its lease
--
-- The last arguments may be missing, since each takes time to read.
-- ARGV[1]  token      of the one who asks
-- ARGV[2]  not_after  server ms; executed later, the call refuses itself
-- ARGV[3]  lease      ms, a whole number, 0 < lease < 2^53; missing: 30000
-- ARGV[4]  again      "1": an earlier call with this token may have been executed; else "0", or missing
-- ARGV[5]  age        as that of rlock_acquire
--
-- REPLY    now            held; now in server ms
-- REPLY    {1, now, 0, up, run, mark}  the same with age, as rlock_acquire tells it
-- REPLY    {0, 0, pttl}   another has it for pttl ms; -1: it has no expiry
-- REPLY    {-2, now}      too late: nothing was changed

local call = redis.call
local lock, token, lease = KEYS[1], ARGV[1], ARGV[3] or '30000'

if ARGV[3] and (not string.find(lease, '^[1-9]%d*$') or #lease > 15) then
  -- USES check_lease
  local _, mistake = check_lease(lease)
  if mistake then return mistake end
end

local holder = call('GET', lock)
local ours = holder == token and ARGV[4] == '1'
if holder and not ours then
  -- USES check_token
  local pttl = call('PTTL', lock)
  return check_token(holder, pttl) or {0, 0, pttl}
end

local clock = call('TIME')
local time = clock[1] * 1000 + clock[2] / 1000 -- a reply has whole ms
if time > ARGV[2] + 0 then return {-2, time} end
if not ours then
  call('SET', lock, token, 'PX', lease)
elseif call('PTTL', lock) < tonumber(lease) then
  call('PEXPIRE', lock, lease)
end
if not ARGV[5] or ARGV[5] == tostring(redis) then return time end
-- USES uptime
return {1, time, 0, uptime(time)}
