-- fair_grant: hand a fair lock to the head of its queue, for so many ms, and say whether anybody has heard of it; or what
-- has refused to. A waiter whom nobody heard is taken for dead, as Java would: out of the queue, but known to be alive
-- until then. If it lives, it comes back to its place with its next call.
-- USES expire
local function fair_grant(q, head, alive, ms)
  redis.call('LREM', q.queue, 1, head)
  redis.call('ZREM', q.due, head)
  redis.call('ZREM', q.alive, head)
  redis.call('DEL', q.lock)
  redis.call('HSET', q.lock, head, 1)
  local refused = expire(q.lock, ms)
  -- The message last: who is told has the lock.
  local heard = refused or redis.pcall(q.publish, q.told .. string.match(head, '^[^:]*'), head .. ' 0')
  refused = type(heard) == 'table' and heard
  if not refused and (heard > 0 or q.reach == '0') then
    redis.pcall('LREM', q.ours, 1, head)
    return true
  end
  redis.call('DEL', q.lock)
  redis.call('ZADD', q.alive, string.format('%.0f', alive), head)
  redis.call('PEXPIRE', q.alive, 86400000)
  return false, refused
end
