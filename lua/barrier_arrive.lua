-- barrier_arrive: join a barrier, or arrive at a generation, which trips if that was the last party; or only look
-- whether one trips because a party is gone. A copy of the call, however late, changes nothing more: ids are never used
-- again, and nobody arrives twice at a generation. What a server has forgotten of a barrier whose parties it still has,
-- is what the next party that arrives knows of it.
--
-- KEYS[1]  semaphore  string, the places that are free; nothing there: none
-- KEYS[2]  permits    zset {id -> server ms when the lease is over}, the parties
-- KEYS[3]  barrier    hash {gen, tripped, full, arrived, id -> generation}: the generation that is waited for, from 1;
--                     the last one that tripped, 0: none; "1" if all places were taken by parties that had joined; how
--                     many have arrived; for each party the last generation at which it arrived, 0: it has joined.
--                     Expires after 100 days
--
-- ARGV[1]  id         16 bytes, of a party; "": nobody arrives
-- ARGV[2]  at         the generation at which it arrives; 0: it joins
-- ARGV[3]  tripped    the last generation that it knows has tripped
-- ARGV[4]  full       "1": it knows that all places were taken in generation at
-- ARGV[5]  parties    how many places there are
-- ARGV[6]  breaks     "1": a party that is gone breaks the generation, if all places were taken; else it counts out
-- ARGV[7]  publish    PUBLISH or SPUBLISH
-- ARGV[8]  channel    where parties wait; in a cluster, of the barrier's slot
--
-- REPLY    {0}                       its lease is over, or it is no party; or there are none
-- REPLY    {0, places}               it has that many places instead: more than parties, or it joins
-- REPLY    {gen, tripped, full, ms, mark}  as above; no lease ends within ms; mark is the last generation at which the
--                                          party has arrived, 0: none. A generation that is neither gen nor the one
--                                          that tripped last was broken
--
-- USES     now read_count

local permits, barrier, id, at = KEYS[2], KEYS[3], ARGV[1], tonumber(ARGV[2])
local call = redis.call

local time = now()
local from = string.format('(%.0f', time)
local missing = 0
if id ~= '' then
  local lease = tonumber(call('ZSCORE', permits, id))
  if not lease or lease <= time then return {0} end
  local free, mistake = read_count(call('GET', KEYS[1]))
  if mistake then return mistake end
  if free then -- otherwise it was lost: see TrySetPermits
    missing = tonumber(ARGV[5]) - free - call('ZCARD', permits)
    -- Who has joined has seen that there were enough: if some are missing, their number was lost, and those who have
    -- left since made a new one.
    if missing < 0 or missing > 0 and at == 0 then return {0, tonumber(ARGV[5]) - missing} end
  end
end

local live = call('ZCOUNT', permits, from, '+inf')
local was = call('HMGET', barrier, 'gen', 'tripped', 'full', 'arrived', id)
local gen, tripped = tonumber(was[1]) or 0, tonumber(was[2]) or 0
local full, arrived, mark = was[3] == '1', tonumber(was[4]) or 0, tonumber(was[5])
if live == 0 or gen == 0 and id == '' then
  if gen > 0 then
    call(ARGV[7], ARGV[8], '0')
    call('DEL', barrier)
  end
  return {0}
end

local gone, changed, over = {}, false, false
-- Whether all parties have arrived, or how many have joined; who is gone is to be forgotten.
local function muster()
  local marks, all, joined = {}, true, 0
  gone = {}
  local fields = call('HGETALL', barrier)
  for i = 1, #fields, 2 do
    if #fields[i] == 16 then marks[fields[i]] = tonumber(fields[i + 1]) end
  end
  if id ~= '' then marks[id] = mark end
  for _, party in ipairs(call('ZRANGEBYSCORE', permits, from, '+inf')) do
    if marks[party] ~= gen then all = false end
    if marks[party] then joined = joined + 1 end
    marks[party] = nil
  end
  for party in pairs(marks) do gone[#gone + 1] = party end
  return all, joined
end

if id ~= '' and at == 0 and not mark then
  mark, changed = 0, true
  local _, joined = muster()
  over = ARGV[6] == '1' and full -- it has the place of another
  if joined == 1 then gen, tripped, full, arrived, over = 1, 0, false, 0, false end
  if over then gen, arrived = gen + 1, 0 end
  full = joined >= tonumber(ARGV[5]) or full and not over
elseif id ~= '' and at > 0 then
  if gen < at then
    -- It was begun anew: by one that has joined since the server has forgotten that all places were taken, and so in
    -- place of another that is gone.
    over = ARGV[6] == '1' and ARGV[4] == '1' and gen == 1 and not full
    gen, tripped, full, arrived = at, math.max(tripped, tonumber(ARGV[3])), false, 0
    if over then gen, mark, changed = at + 1, at, true end
  end
  if gen == at then
    if not full and ARGV[4] == '1' then full, changed = true, true end
    if mark ~= at then mark, arrived, changed = at, arrived + 1, true end
    if changed and not full then -- the server may have forgotten a party that had joined
      local _, joined = muster()
      full = joined >= tonumber(ARGV[5])
    end
  end
end

if full and ARGV[6] == '1' and live < tonumber(ARGV[5]) then
  gen, full, arrived, changed, over = gen + 1, false, 0, true, true
elseif full and arrived >= live and muster() then
  tripped, gen, arrived, changed, over = gen, gen + 1, 0, true, true
end

local first = call('ZRANGEBYSCORE', permits, from, '+inf', 'WITHSCORES', 'LIMIT', '0', '1')
if missing > 0 then call('INCRBY', KEYS[1], missing) end
if changed then
  -- What a server may refuse comes before anything has changed.
  local there = call('PEXPIRE', barrier, '8640000000')
  if #gone > 0 then call('HDEL', barrier, '') end
  if over then call(ARGV[7], ARGV[8], string.format('%.0f', gen)) end
  local set = {'gen', gen, 'tripped', tripped, 'full', full and '1' or '0', 'arrived', arrived}
  if id ~= '' then set[9], set[10] = id, mark end
  for i = 2, #set, 2 do
    if type(set[i]) == 'number' then set[i] = string.format('%.0f', set[i]) end
  end
  call('HSET', barrier, unpack(set))
  for _, party in ipairs(gone) do call('HDEL', barrier, party) end
  if there == 0 then call('PEXPIRE', barrier, '8640000000') end
end
return {gen, tripped, full and 1 or 0, tonumber(first[2]) - time, mark or 0}
