-- fair_warn: make the first waiter look that hears of grants. It then also listens on its own channel, where the head,
-- or a waiter in between, tells it: they are of an older version.
-- USES fair_life fair_tell
local function fair_warn(q)
  for _, owner in ipairs(redis.call('LRANGE', q.queue, '1', '100')) do
    local _, grant = fair_life(q, owner)
    if grant then return fair_tell(q, owner, grant) end
  end
end
