-- uptime: for how many seconds the server has been up, give or take one, and the first 48 bits of its
-- run id, by which servers are told apart; -1 and 0 if it does not say.
local function uptime()
  local info = redis.pcall('INFO', 'server')
  if type(info) ~= 'string' then return -1, 0 end
  local function field(name, pattern)
    local _, last = string.find(info, name, 1, true)
    return last and string.match(info, pattern, last + 1)
  end
  local seconds, run = field('uptime_in_seconds:', '^%d+'), field('run_id:', '^%x+')
  if not seconds or not run then return -1, 0 end
  return tonumber(seconds), tonumber(string.sub(run, 1, 12), 16)
end
