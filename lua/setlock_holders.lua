-- setlock_holders: who holds a lock that is one string, and for how long still.
--
-- KEYS[1]  lock  string, the holder's token
--
-- REPLY    {token, 1, ms}  ms: -1 no expiry
-- REPLY    {}              nobody
--
-- USES     check_token

local token = redis.call('GET', KEYS[1])
if not token then return {} end
local pttl = redis.call('PTTL', KEYS[1])
return check_token(token, pttl) or {token, 1, pttl}
