-- rlock_acquire_all: take several locks for one wire owner, all of them or none.
-- A copy of the call changes nothing but expiries, which it may extend; one that comes after its
-- not_after changes nothing at all.
--
-- KEYS[i]  lock  hash {wire owner -> hold count}, expires with its longest lease; all different
--
-- ARGV[1]      owner      "<session>:<number>", the wire owner
-- ARGV[2]      not_after  server ms; executed later, the call refuses itself
-- ARGV[i + 2]  lease      of KEYS[i], ms, a whole number, 0 < lease < 2^53
--
-- REPLY    now              all are held; now in server ms
-- REPLY    {0, 0, pttl, i}  another owner has KEYS[i] for pttl ms, -1: without an expiry; nothing was changed
-- REPLY    {-2, now}        too late: nothing was changed
--
-- USES     check_lease now expire wrong_lock

local owner = ARGV[1]

local leases, left = {}, {} -- left: PTTL, -2 of one that is free
for i = 1, #KEYS do
  local lease, mistake = check_lease(ARGV[i + 2])
  if mistake then return mistake end
  leases[i], left[i] = lease, redis.call('PTTL', KEYS[i])
  if left[i] ~= -2 then
    local fields = redis.call('HMGET', KEYS[i], owner, 'mode')
    if fields[2] then return wrong_lock() end
    if not fields[1] then return {0, 0, left[i], i} end
  end
end

local time = now()
if time > tonumber(ARGV[2]) then return {-2, time} end

-- What a server refuses, it refuses for the first lock: then no other one has been taken.
for i = 1, #KEYS do
  if left[i] == -2 then
    redis.call('HSET', KEYS[i], owner, '1')
    local refused = expire(KEYS[i], ARGV[i + 2])
    if refused then return refused end
  elseif left[i] < leases[i] then
    redis.call('PEXPIRE', KEYS[i], ARGV[i + 2])
  end
end
return time
