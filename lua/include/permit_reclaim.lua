-- permit_reclaim: give back permits whose leases are over, the longest-expired first, and tell the waiters outside of
-- the line. It gives back no more at a time than the server can do without stalling. Says how many are free now, if
-- free were before, or nil if there is no semaphore; and whether more leases are over.
-- USES permit_publish
local function permit_reclaim(l, semaphore, permits, free, time)
  local over = redis.call('ZCOUNT', permits, '-inf', time)
  local n = math.min(over, 2000)
  if n == 0 then return free, false end
  free = (free or 0) + n
  -- The message first: a server that refuses it has then changed nothing.
  if free > 0 then permit_publish(l, string.format('%.0f', free)) end
  -- A server without memory refuses INCRBY, unless something was written before: this removes none,
  -- and shows that ZREMRANGEBYRANK is allowed, while nothing is changed yet.
  redis.call('ZREMRANGEBYRANK', permits, '1', '0')
  redis.call('INCRBY', semaphore, n)
  redis.call('ZREMRANGEBYRANK', permits, '0', n - 1)
  return free, over > n
end
