#!lua
--[[
  Reads what granting a lock writes; writes nothing. `write-grant` writes it.
  Reads: fenceKey, locksKey, dueKey, heldKey (nil unless the lock is a public one), listed (the lock's name in the list of
  locks, or ""), now, nowUs
  Sets: nextFence, overHeld (locks that are over and still counted, some of them)
]]
local nextFence = string.format("%.0f", math.max((tonumber(redis.call("GET", fenceKey)) or 0) + 1, nowUs))
if listed ~= "" then
  redis.call("ZCARD", locksKey)
  redis.call("ZCARD", dueKey)
end
local overHeld = heldKey and redis.call("ZRANGE", heldKey, "-inf", "(" .. now, "BYSCORE", "LIMIT", "0", "100") or {}
