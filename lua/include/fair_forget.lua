-- fair_forget: take a waiter out of a fair lock's queue, wherever it stands. One that is the head is the first of ours,
-- too: then nothing is searched, however long the lists are.
local function fair_forget(q, owner, is_head)
  local count = is_head and '1' or '0'
  redis.call('LREM', q.queue, count, owner)
  redis.call('ZREM', q.due, owner)
  redis.call('ZREM', q.alive, owner)
  redis.call('LREM', q.ours, count, owner)
end
