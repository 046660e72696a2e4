-- lock_asked: when somebody has last asked a holder for its lock.
--
-- KEYS[1]  asked   hash {wire owner or token -> server us}: who was asked, and when last
--
-- ARGV[1]  holder  wire owner or token
--
-- REPLY    age     in us
-- REPLY    -1      nobody has, in the last minute

local asked = redis.call('HGET', KEYS[1], ARGV[1])
if not asked then return -1 end
local clock = redis.call('TIME')
return math.max(0, clock[1] * 1000000 + clock[2] - asked) -- 0 also if the clock was set back
