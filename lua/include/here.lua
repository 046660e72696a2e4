-- here: call a command that replies a number on keys that the script was not given, and return nil if one of them may
-- be on another node: while a slot moves, a node of a cluster refuses a command on a key that it does not have, and on
-- several of which it does not have all. Servers from Redis 7.4 and Valkey 8 on have other words for the second. What
-- else is refused is an error.
local function here(...)
  local reply = redis.pcall(...)
  if type(reply) ~= 'table' then return reply end
  if string.find(reply.err, 'non local key', 1, true) or string.find(reply.err, 'rehashing of the slot', 1, true) then
    return nil
  end
  return redis.call(...)
end
