-- line_room: how many of the free permits are left for a waiter when those in front of it in the line get what they
-- wait for. A waiter without a place there is behind all of them. Dead waiters in front are taken out.
-- USES line_drop line_lives
local function line_room(l, free, waiter, time)
  local place = 0
  while free > 0 do
    local ahead = redis.call('LINDEX', l.line, place)
    if not ahead or ahead == waiter then break end
    if line_lives(l.alive, ahead, time) then
      free = free - (tonumber(string.match(ahead, ' (%d+)$')) or 0)
      place = place + 1
    else
      line_drop(l, ahead)
    end
  end
  return free
end
