-- line_pass: free a lock that has waiters in line, or hand it to the first of them that lives: that one has it from
-- then on, and hears so on its session's channel. If others also wait, the lock is sometimes free: they are told, and
-- the first in line looks a little later. It is also free for a moment four times a second, or callers that poll would
-- never see it free. Says how many heard that; or 1 if the lock was handed on, 0 if nobody waits but the session that
-- had it.
-- USES expire line_lives line_tell line_others token_next
local function line_pass(l, waiting)
  local clock = redis.call('TIME')
  local time = clock[1] * 1000 + math.floor(clock[2] / 1000)
  local others = line_others(l)
  -- The microseconds are the dice. When others release, the line gets the lock with 1 / (others + 1) only, as one of it
  -- competes with them. With that times others / (waiting + 1), who releases being back soon, all have it equally
  -- often.
  local free = time % 256 < 4 or clock[2] % 1000 * (others + 1) * (waiting + 1) < others * 1000
  local function first()
    local waiter = redis.call('LINDEX', l.line, '0')
    return waiter, waiter and line_lives(l.alive, waiter, time)
  end
  local waiter, lives = first() -- before the lock is gone: a key of another type ends it here
  redis.call('DEL', l.lock)
  while waiter do
    if free and lives and line_tell(l, waiter, 'free') then break end
    redis.call('LPOP', l.line)
    redis.call('ZREM', l.alive, waiter)
    local owner, lease, fenced = string.match(waiter, '^(%S+) (%d+) ?(%S*)$')
    local grants, token = owner and lives and not free, 0
    if grants and fenced ~= '' then
      grants, token = pcall(function() return token_next(l.token, string.match(fenced, ':(%d+)$')) end)
    end
    if grants then
      redis.call('HSET', l.lock, owner, '1')
      local refused = expire(l.lock, lease)
      token = token == 0 and '0' or redis.call('GET', l.token) -- with all its digits
      -- The message last: who is told has the lock.
      if not refused and line_tell(l, waiter, owner .. ' ' .. token) then
        local session = string.match(owner, '^[^:]*:')
        return waiting == 1 and string.sub(l.owner or '', 1, #session) == session and 0 or 1
      end
      redis.call('DEL', l.lock)
    end
    waiter, lives = first()
  end
  local heard = redis.pcall(l.publish, l.channel, '0')
  return type(heard) == 'number' and heard or 0
end
