#!lua
--[[
  The claims that a change asked for and got, when it is asked again.
  Reads: at (index of the change, see plan-change), runKey, nowMs
  Sets: granted (job ids, fences and the times left, in turn)
]]
local granted = {}
if ARGV[at + 5] ~= "" then
  local counts = at + 6 + 2 * ARGV[at + 4]
  local first = counts + (ARGV[at + 5] == "jobs" and 1 or 8)
  for job = first, first - 1 + 7 * ARGV[counts], 7 do
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
