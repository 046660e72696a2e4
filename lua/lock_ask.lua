-- lock_ask: tell those who hold a lock that somebody wants it. They are noted as well, for those who miss the message.
--
-- KEYS[1]  lock     hash {wire owner -> hold count} with "mode" of a read-write lock, whose writer's owner ends with
--                   ":write"; or string, the holder's token
-- KEYS[2]  asked    hash {wire owner or token -> server us}: who was asked, and when last; expires a minute after that
--
-- ARGV[1]  publish  PUBLISH or SPUBLISH
-- ARGV[2]  channel  where holders listen; of the lock's slot
--
-- REPLY    n        how many hold it, and were asked
--
-- USES     check_token

local call, note = redis.call, KEYS[2]

local found, holders, seen = redis.pcall('HKEYS', KEYS[1]), {}, {}
if found.err then
  if not string.find(found.err, '^WRONGTYPE') then return found end
  found = {call('GET', KEYS[1])}
  local mistake = check_token(found[1], call('PTTL', KEYS[1]))
  if mistake then return mistake end
end
for _, holder in ipairs(found) do
  holder = string.match(holder, '^(.*):write$') or holder
  if holder ~= 'mode' and not seen[holder] then -- a writer may read, too
    seen[holder], holders[#holders + 1] = true, holder
  end
end
if #holders == 0 then return 0 end

call(ARGV[1], ARGV[2], '') -- first: a server that refuses it has changed nothing
local clock = call('TIME')
local now = clock[1] .. string.format('%06d', clock[2])
for _, holder in ipairs(holders) do call('HSET', note, holder, now) end
local done = redis.pcall('PEXPIRE', note, '60000')
if type(done) == 'table' then
  call('DEL', note)
  return done
end
return #holders
