-- hears: whether anybody listens to a channel at this server. Where it does not know those who listen at others (reach
-- is 0), or says nothing, somebody is taken to. It is asked before a message that makes somebody believe: PUBLISH does
-- not count those who listen at a replica, who get the message all the same.
local function hears(l, channel)
  if l.reach == '0' then return true end
  local counts = redis.pcall('PUBSUB', l.publish == 'SPUBLISH' and 'SHARDNUMSUB' or 'NUMSUB', channel)
  return counts.err ~= nil or counts[2] > 0
end
