-- permit_stand: have a waiter in the line of a semaphore, at its end unless it is there. Says whether it is to listen on
-- the semaphore's channel, too, because those may give permits back who do not know the line: 1, at once; 2, if it still
-- stands here in a while, which it will not where permits pass on quickly.
-- USES line_others
local function permit_stand(l, waiter, wait, time)
  local ahead = redis.call('LPOS', l.line, waiter)
  local listens = ahead or line_others(l) > 0
  -- A server without memory refuses to add anything, unless something was removed before, be it nothing.
  redis.call('ZREM', l.alive, '')
  redis.call('ZADD', l.alive, string.format('%.0f', time + wait), waiter)
  if not ahead then ahead = redis.call('RPUSH', l.line, waiter) - 1 end
  redis.call('PEXPIRE', l.alive, 60000)
  redis.call('PEXPIRE', l.line, 60000)
  return (listens or ahead == 0) and 1 or 2
end
