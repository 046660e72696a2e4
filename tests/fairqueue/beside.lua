-- beside: a world of its own for one call of a script. It stores a state, answers for the clock,
-- for what is left of leases and for subscribers in the server's place, counts the commands
-- inside, and returns what is stored in the end. All in one call, so no time passes on the server.
--
-- KEYS     the script's
-- ARGV     the script's, and one more: the state as JSON
--
-- REPLY    {the script's reply, {channel and payload, ...}, {key, type, ms left, content, ...},
--          {command, times, ...}}

local stage = cjson.decode(ARGV[#ARGV])
local ARGV = {unpack(ARGV, 1, #ARGV - 1)}
local server = redis
local left, published, calls = {}, {}, {}

local function fill(command, key, values, ms)
  server.call(command, key, unpack(values))
  if ms >= 0 then
    server.call('PEXPIRE', key, 86400000)
    left[key] = ms
  end
end
server.call('FLUSHDB')
for _, key in ipairs(stage.stored) do fill(key.with, key.name, key.values, key.left) end

local function lease(key)
  local real = server.call('PTTL', key)
  return real < 0 and real or left[key]
end

local function answering(call)
  return function(name, key, ...)
    calls[name] = (calls[name] or 0) + 1
    if name == 'TIME' then return stage.time end
    if name == 'PTTL' then return lease(key) end
    if name == 'PUBLISH' then
      published[#published + 1] = key .. ' ' .. (...)
      return stage.heard[key] or 0
    end
    if name == 'PUBSUB' then return {(...), stage.heard[(...)] or 0} end
    if name == 'PEXPIRE' then left[key] = tonumber((...)) end
    return call(name, key, ...)
  end
end

local function run()
  local redis = {call = answering(server.call), pcall = answering(server.pcall), error_reply = server.error_reply}
-- the script
end
local reply = run()

local stored, counted = {}, {}
local keys = server.call('KEYS', '*')
table.sort(keys)
for _, key in ipairs(keys) do
  local kind = server.call('TYPE', key).ok
  local content
  if kind == 'hash' then content = server.call('HGETALL', key)
  elseif kind == 'list' then content = server.call('LRANGE', key, 0, -1)
  elseif kind == 'zset' then content = server.call('ZRANGE', key, 0, -1, 'WITHSCORES')
  end
  stored[#stored + 1] = {key, kind, lease(key), content}
end
for name, times in pairs(calls) do
  counted[#counted + 1] = name
  counted[#counted + 1] = times
end
return {reply, published, stored, counted}
