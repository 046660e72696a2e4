-- line_others: how many wait for a lock who are not in its line: Redisson's processes, and callers of ours that want
-- several locks at once. They listen on the lock's channel. So do a few sessions of ours that stand in the line, but
-- these can be heard on a second channel as well.
local function line_others(l)
  local count = l.publish == 'SPUBLISH' and 'SHARDNUMSUB' or 'NUMSUB'
  local counts = redis.pcall('PUBSUB', count, l.channel, l.line .. ':redisson')
  local others = counts.err and 1 or counts[2] - counts[4]
  return math.max(others, l.reach == '0' and 1 or 0)
end
