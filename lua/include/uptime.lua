-- uptime: for how many seconds the server has been up at this time, give or take one, and the first 48
-- bits of its run id, by which servers are told apart; -1 and 0 if it does not say; and its mark, which
-- is where it keeps a table in its memory: that differs after a restart, and costs a tenth of INFO. The
-- server counts by its clock, which may have been set since it started: 0 if that shows, as no server can
-- have started in the future, or before 2021, when the oldest version that runs this was released.
local function uptime(time)
  local mark = tonumber(string.match(tostring(redis), '^table: 0x(%x+)$') or '0', 16)
  local info = redis.pcall('INFO', 'server')
  if type(info) ~= 'string' then return -1, 0, mark end
  local function field(name, pattern)
    local _, last = string.find(info, name, 1, true)
    return last and string.match(info, pattern, last + 1)
  end
  local seconds, run = field('uptime_in_seconds:', '^%-?%d+'), field('run_id:', '^%x+')
  if not seconds or not run then return -1, 0, mark end
  seconds = tonumber(seconds)
  if seconds < 0 or time / 1000 - seconds < 1609459200 then seconds = 0 end
  return seconds, tonumber(string.sub(run, 1, 12), 16), mark
end
