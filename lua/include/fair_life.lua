-- fair_life: until when a waiter of a fair lock is alive, and the ms for which a release may hand it the lock; false if
-- it is none of this toolkit's, or may not be handed the lock. Those ms are behind the point of its score, in 1024ths:
-- one for 10 ms, and a half more for a lock whose name has a brace. The locks x and {x} have one queue.
local function fair_life(q, owner)
  local score = redis.call('ZSCORE', q.alive, owner)
  if not score then return false, false end
  local last = math.floor(score)
  local asked = (score - last) * 1024
  local units = math.floor(asked)
  local mark = string.find(q.lock, '{', 1, true) and 0.5 or 0
  return last, units > 0 and asked - units == mark and units * 10
end
