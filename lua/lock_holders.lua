-- lock_holders: who holds a lock, how often, and for how long still.
--
-- KEYS[1]  lock  hash {wire owner -> hold count}
--
-- REPLY    {pttl, owner, count, ...}  pttl in ms: -1 no expiry, -2 nobody holds it;
--                                     owners as texts, counts as integers

local lock = KEYS[1]

local fields = redis.call('HGETALL', lock)
local reply = {redis.call('PTTL', lock)}
for i = 1, #fields, 2 do
  reply[i + 1] = fields[i]
  reply[i + 2] = tonumber(fields[i + 1])
end
return reply
