-- leader_current: who leads, which must hold the lock.
--
-- KEYS[1]  lock    hash {wire owner -> hold count}, a fair lock
-- KEYS[2]  leader  hash {owner, term, since, process}, who led last; expires
--
-- REPLY    {pttl}                               nobody leads; pttl of the lock, -2: nobody holds it
-- REPLY    {pttl, owner, term, since, process}  texts; since in server ms; see leader_tell

local lock, leader = KEYS[1], KEYS[2]

local pttl = redis.call('PTTL', lock)
local record = redis.call('HMGET', leader, 'owner', 'term', 'since', 'process')
if not record[4] or redis.call('HEXISTS', lock, record[1]) == 0 then return {pttl} end
return {pttl, record[1], record[2], record[3], record[4]}
