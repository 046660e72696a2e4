-- setlock_holders: who holds a lock that is one string, and for how long still.
--
-- KEYS[1]  lock  string, the holder's token
--
-- REPLY    {token, 1, ms}  ms: -1 no expiry
-- REPLY    {}              nobody

local token = redis.call('GET', KEYS[1])
if not token then return {} end
return {token, 1, redis.call('PTTL', KEYS[1])}
