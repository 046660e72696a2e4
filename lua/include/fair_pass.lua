-- fair_pass: pass a fair lock on to the first live waiter in its queue, which begins with head. A waiter of ours that
-- hears has the lock from then on. One that does not is taken for dead, as Java would do: it leaves the queue, but is
-- known to be alive. If it lives, it comes back to its place with its next call. Anybody else is told that the lock is
-- free. A Java waiter whose score is past may still live: if somebody listens on its channel, it gets 5 s more. If only
-- waiters that did not hear are left, they are soon forgotten. Returns nothing; or 0 if the lock is not its owner's and
-- nothing has changed; or the error with which the server refuses to hand the lock on.
-- USES fair_life hears fair_grant
local function fair_pass(q, time, head, owner, lease, count)
  local deaf, granted = false, false
  local sure = count -- that it is the owner's; a grant finds out by itself
  while head and not granted do
    local alive, grant = fair_life(q, head)
    local channel = grant and alive > time and q.told .. string.match(head, '^[^:]*')
    if channel and hears(q, channel) then
      local refused, untold
      granted, refused, untold = fair_grant(q, head, alive, grant, channel, owner, lease, count)
      if not granted then return 0 end
      if untold then -- for want of the right to tell sessions: then the lock is free, as an older version's is
        granted = false
        redis.call('LPUSH', q.queue, head)
        redis.call('ZADD', q.due, string.format('%.0f', alive), head)
        redis.call(q.publish, q.channel .. head, '0')
        break
      end
      if refused or not deaf then return refused end
    else
      if not sure and redis.call('HEXISTS', q.lock, owner) == 0 then return 0 end
      sure = true
      if channel then
        redis.call('LREM', q.queue, '1', head)
        redis.call('ZREM', q.due, head)
        deaf = true
      elseif alive and alive <= time then
        -- USES fair_forget
        fair_forget(q, head, true)
      else
        -- USES fair_forget fair_bury fair_settle fair_knows fair_warn
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
        fair_forget(q, head, true)
      end
    end
    head = redis.call('LINDEX', q.queue, '0')
  end
  if deaf and not head then
    -- USES fair_rest
    fair_rest(q)
  end
  if not granted then redis.call('DEL', q.lock) end -- after the message: a server that refuses it has freed nothing
end
