-- fair_grant: hand a fair lock to the head of its queue, for so many ms, and say whether it has it; or what has refused
-- to. A waiter whom nobody would tell is taken for dead, as Java would: out of the queue, but known to be alive until
-- then. If it lives, it comes back to its place with its next call.
-- USES expire hears
local function fair_grant(q, head, alive, ms)
  local channel = q.told .. string.match(head, '^[^:]*')
  redis.call('LREM', q.queue, 1, head)
  redis.call('ZREM', q.due, head)
  if not hears(q, channel) then return false end
  redis.call('ZREM', q.alive, head)
  redis.call('DEL', q.lock)
  redis.call('HSET', q.lock, head, 1)
  local refused = expire(q.lock, ms)
  -- The message last: who is told has the lock.
  local heard = refused or redis.pcall(q.publish, channel, head .. ' 0')
  if type(heard) == 'number' then
    redis.pcall('LREM', q.ours, 1, head)
    return true
  end
  redis.call('DEL', q.lock)
  redis.call('ZADD', q.alive, string.format('%.0f', alive), head)
  redis.call('PEXPIRE', q.alive, 86400000)
  return false, heard
end
