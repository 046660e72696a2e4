-- permit_tell: tell the first in the line for whom there is room that they may look. Each is told once, and has 5 s to
-- look: it is dead then, so one that stands still does not keep the permits from the others for longer. Whoever does not
-- hear is taken out. If permits are left over, or the server refuses something, those who are not in the line are told
-- the text, if there is one. Whatever is refused costs those who wait time, but no permits.
local function permit_tell(l, free, time, text)
  local function tell()
    local place = 0
    while free > 0 do
      local waiter = redis.call('LINDEX', l.line, place)
      if not waiter then return false end
      local session, n = string.match(waiter, '^([^:]*).* (%d+)$')
      local left = tonumber(redis.call('ZSCORE', l.alive, waiter) or 0) - time
      local lives = n and left >= 0
      n = tonumber(n)
      if lives and n <= free and left > 5000 then
        lives = redis.call(l.publish, l.line .. ':' .. session, 'first') > 0 or l.reach == '0'
        if lives then redis.call('ZADD', l.alive, string.format('%.0f', time + 5000), waiter) end
      end
      if lives then
        free = free - n
        place = place + 1
      else
        redis.call('ZREM', l.alive, waiter)
        redis.call('LREM', l.line, 1, waiter)
      end
    end
    return true
  end
  local done, all = pcall(tell)
  if text and not (done and all) then redis.pcall(l.publish, l.channel, text) end
end
