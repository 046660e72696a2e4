-- semaphore_release_expirable: give permits back by their ids, all of them or none, and tell the waiters; or leave the
-- line of those. A copy of the call, however late, finds none of them: ids are never used again.
--
-- KEYS[1]  semaphore  string, the free permits, which may be below 0; nothing there: none
-- KEYS[2]  permits    zset {id -> server ms when the lease is over; 922337203685477: never}
-- KEYS[3]  line       list of waiters, the next one first; their sessions listen on <line>:<session>. It may be
--                     missing, with the one that follows, while a slot moves: nobody stands there then
-- KEYS[4]  alive      sorted set {waiter in line -> server ms}: dead then
--
-- ARGV[1]  publish    PUBLISH or SPUBLISH
-- ARGV[2]  channel    where those wait who are not in the line; in a cluster, of the semaphore's slot
-- ARGV[3]  reach      "0": the server does not count those who listen at others; else "1"
-- ARGV[4]  owner      "<session>:<number>", of the first id, to be in the line no more; "": it may not be there
-- ARGV[i]  id         from 5 on, 16 bytes, each once: of a permit
--
-- REPLY    0  one of them is not taken, or its lease is over: what was still to be is left so
-- REPLY    n  from 2: given back, and n - 2 clients of this server heard of it on the channel
--
-- USES     now read_count line_others permit_leave permit_reclaim permit_remove line_call

local semaphore, permits, owner = KEYS[1], KEYS[2], ARGV[4]
local l = {line = KEYS[3], alive = KEYS[4], publish = ARGV[1], channel = ARGV[2], reach = ARGV[3]}
local n = #ARGV - 4

local time = now()
local waiting = l.line and redis.call('LLEN', l.line) > 0
if waiting and owner ~= '' then permit_leave(l, owner, read_count(redis.call('GET', semaphore)), time) end
local deadlines = {}
for i = 5, #ARGV do
  deadlines[i] = redis.call('ZSCORE', permits, ARGV[i])
  if not deadlines[i] or tonumber(deadlines[i]) <= time then
    local free, mistake = read_count(redis.call('GET', semaphore))
    if mistake then return mistake end
    free = permit_reclaim(l, semaphore, permits, free, time)
    if waiting then line_call(l, free or 0, time) end
    return 0
  end
end

-- What a server refuses leaves the permits taken, as they were.
local function undo(refusal)
  local ttl = redis.call('PTTL', semaphore)
  for i = 5, #ARGV do redis.call('ZADD', permits, deadlines[i], ARGV[i]) end
  if ttl > 0 then redis.pcall('PEXPIRE', permits, ttl) end
  return refusal
end
permit_remove(permits, ARGV, 5)
local free = redis.pcall('INCRBY', semaphore, n)
if type(free) == 'table' then
  local _, mistake = read_count(redis.call('GET', semaphore))
  return undo(mistake or free)
end
local heard = 0
if not waiting or line_others(l) > 0 then
  -- Of several permits the message says how many came back, of one how many are free.
  heard = redis.pcall(l.publish, l.channel, string.format('%.0f', n == 1 and free or n))
  if type(heard) == 'table' then
    redis.call('DECRBY', semaphore, n)
    local undone, refusal = pcall(undo, heard)
    if not undone then redis.call('INCRBY', semaphore, n) end
    return undone and refusal or heard
  end
end
if waiting then line_call(l, free, time, heard == 0 and string.format('%.0f', n)) end
return 2 + heard
