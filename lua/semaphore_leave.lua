-- semaphore_leave: take a waiter out of the line of a semaphore, and tell the waiters that now have room.
--
-- KEYS[1]  semaphore  string, the free permits, which may be below 0; nothing there: none
-- KEYS[2]  line       list of waiters, the next one first; their sessions listen on <line>:<session>. It may be
--                     missing, with the one that follows, while a slot moves: it stays there
-- KEYS[3]  alive      sorted set {waiter in line -> server ms}: dead then
--
-- ARGV[1]  publish    PUBLISH or SPUBLISH
-- ARGV[2]  channel    where those wait who are not in the line; in a cluster, of the semaphore's slot
-- ARGV[3]  reach      "0": the server does not count those who listen at others; else "1"
-- ARGV[4]  owner      "<session>:<number>", as its waiters begin
--
-- REPLY    0  it was not there
-- REPLY    1  it is there no more
--
-- USES     now read_count permit_leave

local l = {line = KEYS[2], alive = KEYS[3], publish = ARGV[1], channel = ARGV[2], reach = ARGV[3]}

if not l.line then return 0 end
local free, mistake = read_count(redis.call('GET', KEYS[1]))
if mistake then return mistake end
return permit_leave(l, ARGV[4], free, now())
