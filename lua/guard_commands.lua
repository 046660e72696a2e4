-- guard_commands: run commands one after the other if a wire owner has the lock, up to the first one that fails.
--
-- KEYS[1]  lock  hash {wire owner -> hold count}, string, or zset {permit -> server ms when its lease is over}
-- also     the keys of the commands; in a cluster all of them are in KEYS, behind the lock, and in its slot
--
-- ARGV[1]  as     how the lock has its owners: field, string or permit
-- ARGV[2]  owner  wire owner, with ":write" where it writes
-- ARGV[i]  words  of a command, how many, and behind that the words; from 3
--
-- REPLY    0              the owner does not have the lock, and no command was run
-- REPLY    {r1, r2, ...}  what each command replied; the last one may be an error
--
-- USES     owns

if not owns(KEYS[1], ARGV[1], ARGV[2]) then return 0 end

local replies, i = {}, 3
while ARGV[i] do
  local last = i + tonumber(ARGV[i])
  local reply = redis.pcall(unpack(ARGV, i + 1, last))
  replies[#replies + 1] = reply
  if type(reply) == 'table' and reply.err then break end
  i = last + 1
end
return replies
