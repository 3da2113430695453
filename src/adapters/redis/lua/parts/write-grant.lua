#!lua
--[[
  Grants a lock that is free, or has just become so. Of all locks but run locks and the tenant's admission lock there may be
  any number: they stand in the tenant's list, and the sweep looks some day whether they still belong there.
  Reads: what `plan-grant` reads and sets, lockKey, grantKey, tenant, nowMs, grantMemoryMs, newToken, newInstance,
  newTtlMs, newOwner (a word or "-"; these four of the new holder)
]]
local newValue = newToken .. " " .. newInstance .. " " .. nextFence .. (newOwner == "-" and "" or " " .. newOwner)
redis.call("SET", lockKey, newValue, "PX", newTtlMs)
redis.call("SET", grantKey, newValue .. " held", "PX", string.format("%.0f", newTtlMs + grantMemoryMs))
redis.call("SET", fenceKey, nextFence)
if listed ~= "" then
  local visitAt = string.format("%.0f", nowMs + newTtlMs + grantMemoryMs + 1)
  redis.call("ZADD", locksKey, 0, listed)
  redis.call("ZADD", dueKey, "NX", visitAt, "lock " .. tenant .. " " .. listed)
end
if #overHeld > 0 then redis.call("ZREM", heldKey, unpack(overHeld)) end
if heldKey then redis.call("ZADD", heldKey, string.format("%.0f", nowMs + newTtlMs), listed) end
