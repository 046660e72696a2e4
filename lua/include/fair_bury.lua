-- fair_bury: take this toolkit's dead waiters out of a fair lock's queue, up to 100 at a time.
-- USES fair_forget
local function fair_bury(q, time)
  for _, owner in ipairs(redis.call('ZRANGEBYSCORE', q.alive, '-inf', time, 'LIMIT', 0, 100)) do
    fair_forget(q, owner)
  end
end
