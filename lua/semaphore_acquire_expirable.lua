-- semaphore_acquire_expirable: take permits that come back when their leases are over, if so many
-- are free. A copy of the call finds its ids and takes no others; at most it extends their
-- leases. One that comes after its not_after changes nothing.
--
-- KEYS[1]  semaphore  string, the free permits, which may be below 0; nothing there: none
-- KEYS[2]  permits    zset {id -> server ms when the lease is over; 922337203685477: never}
--
-- ARGV[1]  lease      ms, a whole number, 0 < lease < 2^53; 0: without end
-- ARGV[2]  not_after  server ms; executed later, the call refuses itself
-- ARGV[3]  publish    PUBLISH or SPUBLISH
-- ARGV[4]  channel    where waiters listen; in a cluster, of the semaphore's slot
-- ARGV[5]  id         of a permit, 16 bytes as all are
-- ARGV[i]  id         from 6 on: of further ones; all of them are taken, or none
--
-- REPLY    {1, now, ms}  taken; now in server ms; there are none left for ms, unless they are
--                        given back; -1: without end; 0: there are some
-- REPLY    {0, now, ms}  too few are free, likewise for ms
-- REPLY    {-2, now}     too late: nothing was changed
-- REPLY    {-3, now}     too few are free so far, but more leases are over: to be called again
--
-- USES     now read_count permit_deadline permit_next permit_reclaim permit_remove

local semaphore, permits = KEYS[1], KEYS[2]
local n = #ARGV - 4

local time = now()
if time > tonumber(ARGV[2]) then return {-2, time} end
local deadline, mistake = permit_deadline(ARGV[1], time)
if mistake then return mistake end

local free
free, mistake = read_count(redis.call('GET', semaphore))
if mistake then return mistake end
if not free or free < n then
  local more
  free, more = permit_reclaim(semaphore, permits, free, time, ARGV[3], ARGV[4])
  if not free or free < n then
    local until_then = tonumber(redis.call('ZSCORE', permits, ARGV[5]))
    if not until_then or until_then <= time then
      if more then return {-3, time} end
      return {0, time, permit_next(permits, time)}
    end
  end
end

-- All that is only looked at comes before what is changed: a server that refuses it has then
-- changed nothing.
local ttl = redis.call('PTTL', semaphore)
local back = -1 -- in so many ms the first one comes back
if (free or 0) <= n then
  back = permit_next(permits, time)
  local lease = tonumber(ARGV[1])
  if lease > 0 and (back < 0 or lease < back) then back = lease end
end

-- Permits whose ids are there already are this call's: an earlier copy has taken them.
local taken = 0
for first = 5, #ARGV, 1000 do
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
    permit_remove(permits, ARGV, 5)
    return refused
  end
end
if ttl > 0 then redis.call('PEXPIRE', permits, ttl) end
return {1, time, (free or 0) > taken and 0 or back}
