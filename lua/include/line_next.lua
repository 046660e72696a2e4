-- line_next: a lock was freed for which writers stand in line, so the first of them is told; and whoever frees it next
-- is to know if some stand there still. Whatever is refused costs them time: they look by themselves.
-- USES line_call
local function line_next(l, time)
  line_call(l, 1, time)
  if redis.pcall('LLEN', l.line) ~= 0 then redis.pcall('SET', l.waiting, '1', 'PX', 60000) end
end
