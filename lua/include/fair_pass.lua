-- fair_pass: tell the first live waiter of a fair lock that it is its turn. A Java waiter whose
-- score is past may live all the same: if somebody listens on its channel it gets 5 s more.
-- USES fair_look fair_pop fair_settle
local function fair_pass(q, time, java_wait, publish, channel)
  -- A server without memory refuses ZADD, unless something was written before: this removes none.
  redis.call('ZREM', q.alive, '')
  while true do
    local head, alive, due = fair_look(q)
    if not head then return end
    if (alive or due or 0) > time then break end
    if due and not alive and redis.call(publish, channel .. head, '0') > 0 then
      redis.call('ZADD', q.due, string.format('%.0f', time + 5000), head)
      return
    end
    fair_pop(q, head)
  end
  local head = fair_settle(q, time, 0, java_wait)
  redis.call(publish, channel .. head, '0')
end
