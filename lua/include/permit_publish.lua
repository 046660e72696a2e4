-- permit_publish: tell the waiters outside of the line, where Redisson's processes wait, what Redisson tells them. They
-- sleep until they hear something, so the message is always published; but usually nobody is there to hear it while
-- some stand in the line. Says how many heard, and whether any stand in the line.
-- USES line_others
local function permit_publish(l, text)
  local waiting = l.line and redis.call('LLEN', l.line) > 0
  if waiting and line_others(l) == 0 then return 0, true end
  return redis.call(l.publish, l.channel, text), waiting
end
