-- guard_script: run a user's script if a wire owner has the lock. In front of this text stands that script, as the
-- function guarded(KEYS, ARGV).
--
-- KEYS[1]  lock  hash {wire owner -> hold count}, string, or zset {permit -> server ms when its lease is over}
-- KEYS[i]  key   of the user's script, from 2; in a cluster all in the lock's slot
--
-- ARGV[1]  as        how the lock has its owners: field, string or permit
-- ARGV[2]  owner     wire owner, with ":write" where it writes
-- ARGV[i]  argument  of the user's script, from 3
--
-- REPLY    0    the owner does not have the lock, and the user's script was not run
-- REPLY    {r}  what that replied; what it has raised is an error
--
-- USES     owns

if not owns(KEYS[1], ARGV[1], ARGV[2]) then return 0 end

local keys, args = {}, {}
for i = 2, #KEYS do keys[i - 1] = KEYS[i] end
for i = 3, #ARGV do args[i - 2] = ARGV[i] end
local ok, reply = pcall(guarded, keys, args)
if not ok and (type(reply) ~= 'table' or not reply.err) then reply = redis.error_reply(tostring(reply)) end
if reply == nil then reply = false end
return {reply}
