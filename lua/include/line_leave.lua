-- line_leave: take a waiter out of a lock's line. If it was the first, the next one is told, because it may have to
-- listen in its place.
-- USES line_drop line_tell
local function line_leave(l, waiter)
  local first = redis.call('LINDEX', l.line, '0') == waiter
  line_drop(l, waiter)
  local next = first and redis.call('LINDEX', l.line, '0')
  if next then line_tell(l, next, 'first') end
end
