#!lua
--[[
  Reads what granting a lock writes; writes nothing. `write-grant` writes it.
  Reads: fenceKey, locksKey, dueKey, listed (the lock's name in the list of locks, or ""), nowUs
  Sets: nextFence
]]
local nextFence = string.format("%.0f", math.max((tonumber(redis.call("GET", fenceKey)) or 0) + 1, nowUs))
if listed ~= "" then
  redis.call("ZCARD", locksKey)
  redis.call("ZCARD", dueKey)
end
