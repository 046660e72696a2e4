-- permit_next: for how many ms no taken permit comes back by itself; -1 if none ever does.
local function permit_next(permits, time)
  local score = tonumber(redis.call('ZRANGE', permits, '0', '0', 'WITHSCORES')[2])
  if not score or score == 922337203685477 then return -1 end
  return math.max(score - time, 1)
end
