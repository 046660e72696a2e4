-- rlock_token: the last fencing token of a lock.
--
-- KEYS[1]  token  string, the last fencing token issued, never expires; nothing there: none was
--
-- REPLY    {token}  as a text; 0: none

return {redis.call('GET', KEYS[1]) or 0}
