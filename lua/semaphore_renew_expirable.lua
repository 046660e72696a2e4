-- semaphore_renew_expirable: extend the leases of many permits. None is ever shortened.
--
-- KEYS[i]  permits  zset {id -> server ms when the lease is over; 922337203685477: never}
--
-- ARGV[1]      lease  ms, a whole number, 0 < lease < 2^53; 1: only to look who has what
-- ARGV[i + 1]  id     16 bytes: of a permit of KEYS[i]
--
-- REPLY    {now, r1, r2, ...}  now in server ms; ri of KEYS[i]: 1 extended, n above
--                              that: it lasts longer already, for n ms; 0 not taken or its lease is
--                              over, or the server's error as a text
--
-- USES     check_lease now

local lease, mistake = check_lease(ARGV[1])
if mistake then return mistake end
local time = now()
local deadline = string.format('%.0f', time + lease)
local reply = {time}

local function renew(permits, id)
  local score = redis.pcall('ZSCORE', permits, id)
  if type(score) == 'table' then return score.err end
  local present = tonumber(score)
  if not present or present <= time then return 0 end
  if present > time + lease then return present - time end
  -- A server without memory refuses ZADD, unless something was written before: this removes none.
  local allowed = redis.pcall('ZREM', permits, '')
  if type(allowed) == 'table' then return allowed.err end
  local done = redis.pcall('ZADD', permits, 'XX', deadline, id)
  return type(done) == 'table' and done.err or 1
end

for i = 1, #KEYS do
  reply[i + 1] = renew(KEYS[i], ARGV[i + 1])
end
return reply
