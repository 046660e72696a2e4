-- lock_holders: who holds a lock, how often, and for how long still.
--
-- KEYS[1]  lock  hash {wire owner -> hold count}
--
-- REPLY    {owner, count, ms, ...}  owners as texts; ms: -1 no expiry
--
-- USES     read_count

local lock = KEYS[1]

local fields = redis.call('HGETALL', lock)
local reply, pttl = {}, redis.call('PTTL', lock)
for i = 1, #fields, 2 do
  reply[#reply + 1] = fields[i]
  local count, mistake = read_count(fields[i + 1])
  if mistake then return mistake end
  reply[#reply + 1] = count
  reply[#reply + 1] = pttl
end
return reply
