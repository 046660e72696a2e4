-- lock_renew: extend many locks, each for its own owner. None is ever shortened.
--
-- KEYS[i]  lock   hash {wire owner -> hold count}
--
-- ARGV[1]      lease  ms, a whole number, 0 < lease < 2^53
-- ARGV[i + 1]  owner  wire owner of KEYS[i]
--
-- REPLY    {now, r1, r2, ...}  now in server ms; ri of KEYS[i]: 1 extended, n above that: it
--                              lasts longer already, for n ms; 0 no longer this owner's, or the
--                              server's error as a text
--
-- USES     check_lease now

local lease, mistake = check_lease(ARGV[1])
if mistake then return mistake end
local reply = {now()}

local function renew(lock, owner)
  local held = redis.pcall('HEXISTS', lock, owner)
  if held == 0 then return 0 end
  if type(held) == 'table' then return held.err end
  local pttl = redis.pcall('PTTL', lock)
  if type(pttl) == 'number' and pttl > lease then return pttl end
  local done = redis.pcall('PEXPIRE', lock, ARGV[1])
  return type(done) == 'table' and done.err or 1
end

for i = 1, #KEYS do
  reply[i + 1] = renew(KEYS[i], ARGV[i + 1])
end
return reply
