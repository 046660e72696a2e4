-- rlock_token: the last fencing token of a lock.
--
-- KEYS[1]  token  string, the last fencing token issued; nothing there: none was, or it has expired
--
-- REPLY    {token}  as a text; 0: none

return {redis.call('GET', KEYS[1]) or 0}
