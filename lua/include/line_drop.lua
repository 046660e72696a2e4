-- line_drop: take a waiter out of a line, wherever it stands. Says how many places it had.
local function line_drop(l, waiter)
  redis.call('ZREM', l.alive, waiter)
  return redis.call('LREM', l.line, '0', waiter)
end
