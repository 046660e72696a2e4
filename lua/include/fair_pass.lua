-- fair_pass: pass a fair lock on to the first live one in its queue, which begins with head. One of ours that hears has
-- the lock from then on. Anybody else is told that it is free. A Java waiter whose score is past may live all the same:
-- if somebody listens on its channel, it gets 5 s more. If the server refuses to hand the lock on, it is its owner's
-- again, for a lease, with its hold count if that is given, and the error is returned. If nobody is left but those who
-- did not hear, they are soon forgotten.
-- USES expire fair_life fair_grant fair_bury fair_pop fair_settle fair_knows fair_warn
local function fair_pass(q, time, head, owner, lease, count)
  local deaf, granted = false, false
  while head and not granted do
    local alive, grant = fair_life(q, head)
    if alive and alive <= time then
      fair_pop(q, head)
    elseif grant then
      local refused
      granted, refused = fair_grant(q, head, alive, grant)
      if refused then
        redis.call('HSET', q.lock, owner, count or 1)
        return expire(q.lock, lease) or refused
      end
      if granted and not deaf then return nil end
      deaf = true
    else
      fair_bury(q, time)
      -- A server without memory refuses ZADD, unless something was written before: this removes none.
      redis.call('ZREM', q.alive, '')
      local due = alive or redis.call('ZSCORE', q.due, head)
      if due and tonumber(due) > time then
        fair_settle(q, time, 0)
        redis.call(q.publish, q.channel .. head, '0')
        if alive and not fair_knows(head) then fair_warn(q) end
        break
      end
      if due and redis.call(q.publish, q.channel .. head, '0') > 0 then
        redis.call('ZADD', q.due, string.format('%.0f', time + 5000), head)
        break
      end
      fair_pop(q, head)
    end
    head = redis.call('LINDEX', q.queue, 0)
  end
  if deaf and not head then
    redis.call('PEXPIRE', q.ours, 15000)
    redis.call('PEXPIRE', q.alive, 15000)
  end
  if not granted then redis.call('DEL', q.lock) end -- after the message: a server that refuses it has freed nothing
end
