-- permit_leave: take a waiter out of the line of a semaphore, and tell those for whom there is room by that. Says how
-- many places it had.
-- USES permit_tell
local function permit_leave(l, waiter, free, time)
  redis.call('ZREM', l.alive, waiter)
  local places = redis.call('LREM', l.line, 0, waiter)
  if places > 0 then permit_tell(l, free or 0, time) end
  return places
end
