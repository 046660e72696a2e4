-- line_call: tell the first waiters in the line for which there is room that they may look. Each is told once, and has
-- 5 s to look: then it counts as dead, so one that stands still does not keep the permits from the others for longer. A
-- waiter that does not hear is taken out, and so is the first one without room if it would not hear. If permits are
-- left over, or the server refuses something, the text is published to the waiters outside of the line, if there is a
-- text. A refusal costs the waiters time, but no permits.
-- USES line_drop now
local function line_call(l, free, time, text)
  local function reaches(session, room)
    local channel = l.line .. ':' .. session
    local heard
    if room then
      heard = redis.call(l.publish, channel, 'first')
    else
      heard = redis.call('PUBSUB', l.publish == 'SPUBLISH' and 'SHARDNUMSUB' or 'NUMSUB', channel)[2]
    end
    return heard > 0 or l.reach == '0'
  end
  local function tell()
    local place = 0
    time = time or now()
    while free > 0 do
      local waiter = redis.call('LINDEX', l.line, place)
      if not waiter then return false end
      local session, n = string.match(waiter, '^([^:]*).* (%d+)$')
      local left = tonumber(redis.call('ZSCORE', l.alive, waiter) or 0) - time
      local told = left <= 5000
      n = tonumber(n)
      if n and left >= 0 and (told or reaches(session, n <= free)) then
        if not told and n <= free then redis.call('ZADD', l.alive, string.format('%.0f', time + 5000), waiter) end
        free = free - n
        place = place + 1
      else
        line_drop(l, waiter)
      end
    end
    return true
  end
  local done, all = pcall(tell)
  if text and not (done and all) then redis.pcall(l.publish, l.channel, text) end
end
