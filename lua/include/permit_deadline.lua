-- permit_deadline: the score of a permit, by which its lease, in ms, is over, or nil and an
-- error to reply. 0 ms never are: that has a score of its own in Redisson.
-- USES check_lease
local function permit_deadline(lease, time)
  if lease == '0' then return '922337203685477' end
  local ms, mistake = check_lease(lease)
  if mistake then return nil, mistake end
  return string.format('%.0f', time + ms)
end
