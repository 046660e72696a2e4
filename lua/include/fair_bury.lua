-- fair_bury: take this toolkit's dead waiters out of a fair lock's queue, up to 100 at a time,
-- and say whether there were any.
-- USES fair_forget
local function fair_bury(q, time)
  local dead = redis.call('ZRANGEBYSCORE', q.alive, '-inf', '(' .. time + 1, 'LIMIT', '0', '100')
  for _, owner in ipairs(dead) do fair_forget(q, owner) end
  return #dead > 0
end
