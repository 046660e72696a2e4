-- permit_leave: take an owner out of the line of a semaphore, however many permits it has waited for, and tell the
-- waiters that now have room. Says how many places it had.
-- USES line_drop line_call
local function permit_leave(l, owner, free, time)
  local places = 0
  for _, waiter in ipairs(redis.call('LRANGE', l.line, '0', '-1')) do
    if string.match(waiter, '^%S+') == owner then places = places + line_drop(l, waiter) end
  end
  if places > 0 then line_call(l, free or 0, time) end
  return places
end
