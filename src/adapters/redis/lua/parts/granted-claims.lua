#!lua
--[[
  The claims that a change asked for and got, when it is asked again.
  Reads: at (index of the change, see plan-change), runKey, nowMs
  Sets: granted (job ids, fences and the times left, in turn)
]]
local granted = {}
if ARGV[at + 5] ~= "" then
  local counts = at + 10 + 2 * ARGV[at + 4]
  for job = counts + 10, counts + 9 + 7 * ARGV[counts], 7 do
    if ARGV[job + 3] ~= "-" then
      local text = redis.call("HGET", runKey, "job:" .. ARGV[job]) or ""
      local token, fence, expiresAt = string.match(text, "^[^ ]+ [^ ]+ ([^ ]+) [^ ]+ ([^ ]+) [^ ]+ ([^ ]+)")
      if token == ARGV[job + 3] then
        granted[#granted + 1] = ARGV[job]
        granted[#granted + 1] = fence
        granted[#granted + 1] = string.format("%.0f", math.max(0, expiresAt - nowMs))
      end
    end
  end
end
