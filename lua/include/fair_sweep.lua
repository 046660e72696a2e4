-- fair_sweep: take dead heads out of the queue of a fair lock that is free, and look at the
-- head that is left. Never while the lock is held: it helps nobody then, and costs live Java
-- waiters their place.
-- USES fair_forget fair_look
local function fair_sweep(q, time)
  while true do
    local head, grant, alive, due = fair_look(q)
    if not head or (alive or due or 0) > time then return head, grant, alive, due end
    fair_forget(q, head, true)
  end
end
