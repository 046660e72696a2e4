-- semaphore_acquire: take permits of a semaphore, if enough are free; or stand in its line. A waiter that stands there
-- is told when its turn comes; it calls again then, and before its time is over. A call that comes after its not_after
-- changes nothing.
--
-- KEYS[1]  semaphore  string, the free permits, which may be below 0; nothing there: none
-- KEYS[2]  line       list of waiters, the next one first; their sessions listen on <line>:<session>. It may be
--                     missing, with the one that follows: for one that passes over whoever waits, or while a slot moves
-- KEYS[3]  alive      sorted set {waiter in line -> server ms}: dead then, expires in a minute, as the line does
--
-- ARGV[1]  n          how many, a whole number, 0 < n < 2^53
-- ARGV[2]  not_after  server ms; executed later, the call refuses itself
-- ARGV[3]  waiter     "<session>:<number> <n>", which is used for one acquisition; "": it is to have no place. It is
--                     there with those that follow if the line is meant to be
-- ARGV[4]  wait       ms for which a waiter lives on without calling again
-- ARGV[5]  publish    PUBLISH or SPUBLISH
-- ARGV[6]  channel    where those wait who are not in the line; in a cluster, of the semaphore's slot
-- ARGV[7]  reach      "0": the server does not count those who listen at others; else "1"
--
-- REPLY    {1, now, left}  taken; left are free now; now in server ms
-- REPLY    {0, 0, free}    too few are free: that many; it does not stand in the line
-- REPLY    {0, now, free}  too few are free for it, behind others; it stands in the line if it has a waiter
-- REPLY    {-2, now}       too late: nothing was changed
--
-- USES     now read_count line_drop line_others line_room line_stand line_call

local semaphore, n, waiter = KEYS[1], tonumber(ARGV[1]), ARGV[3]
local l = {line = KEYS[2], alive = KEYS[3], publish = ARGV[5], channel = ARGV[6], reach = ARGV[7]}

local free, mistake = read_count(redis.call('GET', semaphore))
if mistake then return mistake end
free = free or 0
local stands = l.line and waiter ~= ''
if free < n and not stands then return {0, 0, free} end
local time = now()
if time > tonumber(ARGV[2]) then return {-2, time} end

local waiting = l.line and redis.call('LLEN', l.line) > 0
-- Who does not know the line takes whatever is free; so do those who know it, then: all have permits equally often.
if free >= n and (not waiting or line_room(l, free, waiter, time) >= n or line_others(l) > 0) then
  if waiting and stands then line_drop(l, waiter) end
  redis.call('DECRBY', semaphore, ARGV[1])
  if waiting then line_call(l, free - n, time) end
  return {1, time, free - n}
end

if stands then line_stand(l, waiter, ARGV[4], time) end
line_call(l, free, time) -- it may be the first to see that one in front is dead
return {0, time, free}
