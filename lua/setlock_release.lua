-- setlock_release: free a lock that is one string, if it has the holder's token, and tell the waiters.
-- A copy of the call, however late, finds nothing, unless the token was used again.
--
-- KEYS[1]  lock     string, the holder's token
--
-- The last arguments may be missing, since each takes time to read.
-- ARGV[1]  token    of the one who releases
-- ARGV[2]  channel  where waiters of this toolkit listen; in a cluster, of the lock's slot; missing:
--                   holdfast_setlock:{<lock>}
-- ARGV[3]  publish  PUBLISH or SPUBLISH; missing: PUBLISH
--
-- REPLY    0  the lock does not have this token
-- REPLY    n  from 2: freed, and n - 2 clients of this server listen on the channel

local call, lock = redis.call, KEYS[1]

if call('GET', lock) ~= ARGV[1] then return 0 end
-- The message first: a server that refuses it has then changed nothing.
local listeners = call(ARGV[3] or 'PUBLISH', ARGV[2] or 'holdfast_setlock:{' .. lock .. '}', '0')
call('DEL', lock)
return 2 + listeners
