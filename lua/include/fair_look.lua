-- fair_look: the head of a fair lock's queue; for how long it may be handed the lock, and until when it is alive (see
-- fair_life for both); its score, false if it has none. nil if the queue is empty.
-- USES fair_life
local function fair_look(q)
  local head = redis.call('LINDEX', q.queue, '0')
  if not head then return nil end
  local alive, grant = fair_life(q, head)
  local due = redis.call('ZSCORE', q.due, head)
  return head, grant, alive, due and tonumber(due)
end
