-- line_stand: have a waiter in the line of a semaphore, at its end unless it is there.
local function line_stand(l, waiter, wait, time)
  local stands = redis.call('LPOS', l.line, waiter)
  -- A server without memory refuses to add anything, unless something was removed before, be it nothing.
  redis.call('ZREM', l.alive, '')
  redis.call('ZADD', l.alive, string.format('%.0f', time + wait), waiter)
  if not stands then redis.call('RPUSH', l.line, waiter) end
  redis.call('PEXPIRE', l.alive, '60000')
  redis.call('PEXPIRE', l.line, '60000')
end
