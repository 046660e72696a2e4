-- fair_pop: take the head, which is owner, out of a fair lock's queue. One of ours is the first in
-- ours, too, so nothing is searched, however long the lists are.
local function fair_pop(q, owner)
  redis.call('LREM', q.queue, '1', owner)
  redis.call('ZREM', q.due, owner)
  redis.call('ZREM', q.alive, owner)
  redis.call('LREM', q.ours, '1', owner)
end
