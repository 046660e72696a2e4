-- rwlock_force: end one half of a read-write lock whoever holds it, and tell the waiters. With
-- the write half go the reads of the writer.
--
-- KEYS[1]  lock  hash {"mode" -> "read" or "write", wire owner -> count of read holds,
--                wire owner .. ":write" -> count of write holds}
-- KEYS[2]  waiting  string, is there while some stand in the line of writers. It may be missing, with those that
--                   follow, while a slot moves: none of the line is told then
-- KEYS[3]  line     list of waiters, the next one first; their sessions listen on <line>:<session>
-- KEYS[4]  alive    sorted set {waiter in line -> server ms}: dead then
-- also     the keys of read holds, strings, expire with their holds' leases: see read_holds; in
--          a cluster, of the lock's slot. One that is on another node stays for its lease
--
-- ARGV[1]  half       read or write
-- ARGV[2]  publish    PUBLISH or SPUBLISH
-- ARGV[3]  channel    where waiters listen; in a cluster, of the lock's slot
-- ARGV[4]  reach      "0": the server does not count those who listen at others; else "1"
-- ARGV[5]  not_after  server ms; executed later, the call refuses itself: the lock may be
--                     another holder's by then
--
-- REPLY    {0, now}   nobody held this half; now in server ms
-- REPLY    now        freed
-- REPLY    {-2, now}  too late: nothing was changed
--
-- USES     now read_drop line_next wrong_lock

local lock, half, not_after = KEYS[1], ARGV[1], tonumber(ARGV[5])

local mode = redis.call('HGET', lock, 'mode')
if not mode and redis.call('HLEN', lock) > 0 then return wrong_lock() end
local time = now()
if mode ~= half then return {0, time} end
if time > not_after then return {-2, time} end

redis.call(ARGV[2], ARGV[3], half == 'read' and '0' or '1')
local fields = redis.call('HGETALL', lock)
local some = redis.call('DEL', lock, KEYS[2] or lock) > 1
for i = 1, #fields, 2 do read_drop(lock, fields[i], 1, tonumber(fields[i + 1]) or 0) end
if some then
  line_next({waiting = KEYS[2], line = KEYS[3], alive = KEYS[4], publish = ARGV[2], reach = ARGV[4]}, time)
end
return time
