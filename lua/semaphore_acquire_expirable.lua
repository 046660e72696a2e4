-- semaphore_acquire_expirable: take permits that come back when their leases are over, if enough are free; or stand in
-- the line. A waiter that stands there is told when its turn comes; it calls again then, and before its time is over. A
-- copy of the call finds its ids and takes no others; at most it extends their leases. One that comes after its
-- not_after changes nothing.
--
-- KEYS[1]  semaphore  string, the free permits, which may be below 0; nothing there: none
-- KEYS[2]  permits    zset {id -> server ms when the lease is over; 922337203685477: never}
-- KEYS[3]  line       list of waiters, the next one first; their sessions listen on <line>:<session>. It may be
--                     missing, with the one that follows, while a slot moves: nobody stands there then
-- KEYS[4]  alive      sorted set {waiter in line -> server ms}: dead then, expires in a minute, as the line does
--
-- ARGV[1]  lease      ms, a whole number, 0 < lease < 2^53; 0: without end
-- ARGV[2]  not_after  server ms; executed later, the call refuses itself
-- ARGV[3]  publish    PUBLISH or SPUBLISH
-- ARGV[4]  channel    where those wait who are not in the line; in a cluster, of the semaphore's slot
-- ARGV[5]  reach      "0": the server does not count those who listen at others; else "1"
-- ARGV[6]  waiter     "<session>:<number> <n>", the number is of the first id; "": it is to have no place in the line
-- ARGV[7]  wait       ms for which a waiter lives on without calling again; 0: it does not wait, and passes over those
--                     who do
-- ARGV[8]  id         of a permit, 16 bytes as all are
-- ARGV[i]  id         from 9 on: of further ones; all of them are taken, or none
--
-- REPLY    now               taken; now in server ms
-- REPLY    {0, now, ms}      too few are free for it, and none come back by themselves for ms, -1: ever; it stands in
--                            the line if it has a waiter, and is to call again in ms
-- REPLY    {0, now, ms, -1}  the same, but it does not stand in the line, because KEYS[3] is missing
-- REPLY    {-2, now}         too late: nothing was changed
-- REPLY    {-3, now}         too few are free so far, but more leases are over: to be called again
--
-- USES     now read_count line_drop line_others permit_deadline permit_next permit_reclaim permit_remove line_room
-- USES     line_stand line_call

local semaphore, permits, waiter = KEYS[1], KEYS[2], ARGV[6]
local l = {line = KEYS[3], alive = KEYS[4], publish = ARGV[3], channel = ARGV[4], reach = ARGV[5]}
local n = #ARGV - 7

local time = now()
if time > tonumber(ARGV[2]) then return {-2, time} end
local deadline, mistake = permit_deadline(ARGV[1], time)
if mistake then return mistake end

local free
free, mistake = read_count(redis.call('GET', semaphore))
if mistake then return mistake end
local waiting = l.line and ARGV[7] ~= '0' and redis.call('LLEN', l.line) > 0
local function enough()
  if not free or free < n then return false end
  -- Who does not know the line takes whatever is free; so do those who know it, then: all have permits equally often.
  return not waiting or line_room(l, free, waiter, time) >= n or line_others(l) > 0
end

local more
if not enough() then
  free, more = permit_reclaim(l, semaphore, permits, free, time)
  if not enough() then
    local until_then = tonumber(redis.call('ZSCORE', permits, ARGV[8]))
    if not until_then or until_then <= time then
      if more then return {-3, time} end
      local back = permit_next(permits, time)
      if not l.line then return {0, time, back, waiter ~= '' and -1 or nil} end
      if waiter ~= '' then
        line_stand(l, waiter, ARGV[7], time)
        if back < 0 or back > 4000 then back = 4000 end
      end
      line_call(l, free or 0, time)
      return {0, time, back}
    end
  end
end

-- All that is only looked at comes before what is changed: a server that refuses it has then
-- changed nothing.
local ttl = redis.call('PTTL', semaphore)
if waiting and waiter ~= '' then line_drop(l, waiter) end
-- Permits whose ids are there already are this call's: an earlier copy has taken them.
local taken = 0
for first = 8, #ARGV, 1000 do
  local scored = {}
  for i = first, math.min(first + 999, #ARGV) do
    scored[#scored + 1] = deadline
    scored[#scored + 1] = ARGV[i]
  end
  local added = redis.call('ZADD', permits, 'NX', unpack(scored))
  if added < #scored / 2 then redis.call('ZADD', permits, 'XX', 'GT', unpack(scored)) end
  taken = taken + added
end
if taken > 0 then
  local refused = redis.pcall('DECRBY', semaphore, taken)
  if type(refused) == 'table' then -- a permit that is not counted would be one too many when it comes back
    permit_remove(permits, ARGV, 8)
    return refused
  end
end
-- Time has passed since, and permits that outlived the count would come back to none.
if ttl >= 0 then redis.call('PEXPIRE', permits, math.max(redis.call('PTTL', semaphore) - 1, 1)) end
if waiting or more ~= nil and l.line then line_call(l, (free or 0) - taken, time) end
return time
