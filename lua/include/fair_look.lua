-- fair_look: the head of a fair lock's queue, until when it is alive (false if it is none of
-- this toolkit's), and its score (false if it has none); nil if the queue is empty.
local function fair_look(q)
  local head = redis.call('LINDEX', q.queue, 0)
  if not head then return nil end
  local alive, due = redis.call('ZSCORE', q.alive, head), redis.call('ZSCORE', q.due, head)
  return head, alive and tonumber(alive), due and tonumber(due)
end
