-- fair_grant: hand a fair lock from its owner to the head of its queue, whose session hears on channel, for ms
-- milliseconds. Returns whether the lock was the owner's; if it was not, nothing has changed. If the server refuses a
-- command, the lock goes back to its owner for a lease, with its hold count if count is given, and the error is also
-- returned, and whether it was only the message. The head has then lost its place in the queue, but is known to be
-- alive.
-- USES expire
local function fair_grant(q, head, alive, ms, channel, owner, lease, count)
  if redis.call('HDEL', q.lock, owner) == 0 then return false end
  local untold = false
  local done, refused = pcall(function()
    redis.call('LREM', q.queue, '1', head)
    redis.call('ZREM', q.due, head)
    redis.call('ZREM', q.alive, head)
    redis.call('HSET', q.lock, head, '1')
    redis.call('PEXPIRE', q.lock, ms)
    untold = true
    redis.call(q.publish, channel, head .. ' 0') -- the last: who is told has the lock
  end)
  if done then
    redis.pcall('LREM', q.ours, '1', head)
    return true
  end
  if type(refused) == 'string' then refused = redis.error_reply(refused) end -- Redis 6
  redis.call('DEL', q.lock)
  redis.call('HSET', q.lock, owner, count or '1')
  refused = expire(q.lock, lease) or refused
  redis.call('ZADD', q.alive, string.format('%.0f', alive), head)
  redis.call('PEXPIRE', q.alive, '86400000')
  return true, refused, untold
end
