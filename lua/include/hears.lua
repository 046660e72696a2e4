-- hears: whether anybody listens to a channel at this server. If it does not know the listeners at other servers (reach
-- is 0), or does not answer, the reply is yes. It is asked before a message that makes its receiver trust something:
-- PUBLISH does not count listeners at a replica, which get the message all the same.
local function hears(l, channel)
  if l.reach == '0' then return true end
  local counts = redis.pcall('PUBSUB', l.publish == 'SPUBLISH' and 'SHARDNUMSUB' or 'NUMSUB', channel)
  return counts.err ~= nil or counts[2] > 0
end
