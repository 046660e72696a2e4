-- fair_forget: take a waiter out of a fair lock's queue, wherever it stands.
local function fair_forget(q, owner)
  redis.call('LREM', q.queue, '0', owner)
  redis.call('ZREM', q.due, owner)
  redis.call('ZREM', q.alive, owner)
  redis.call('LREM', q.ours, '0', owner)
end
