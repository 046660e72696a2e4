-- read_count: a count as a number, nil where the server has none; or nil and an error to reply, if
-- what it has is no count: somebody else's text is not to be taken for nothing.
local function read_count(text)
  if not text then return nil end
  local n = string.match(text, '^-?%d+$') and tonumber(text)
  if n and math.abs(n) < 9007199254740992 then return n end
  return nil, redis.error_reply('WRONGTYPE Operation against a key holding a text that is no count')
end
