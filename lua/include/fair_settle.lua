-- fair_settle: lower the head's score if it is further off than a head's need be, and look at
-- the head. What stood in front of it when the score was written is gone.
-- USES fair_look fair_rest
local function fair_settle(q, time, left)
  local head, grant, alive, due = fair_look(q)
  if head and (alive or due) then
    local limit = alive and math.max(alive, time + left) or time + left + q.java_wait
    if not due or due > limit then -- lost by the server, or too far off
      redis.call('ZADD', q.due, string.format('%.0f', limit), head)
      due = limit
    end
  elseif not head then
    fair_rest(q)
  end
  return head, grant, alive, due
end
