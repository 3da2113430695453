#!lua
--[[
  What the sweep does with locks: one that nobody holds any more leaves the list. Its other keys expire by themselves.
  Reads: start, dueKey, nowMs, keysOfLock
  Sets: visitLock (it takes the tenant and the lock's name in the list)
]]
-- How long grants are remembered, and a millisecond.
local visitAfterMs = 600001
local function visitLock(tenant, listed)
  local lockKey = keysOfLock(tenant, listed)
  if redis.call("GET", lockKey) then
    local visitAt = string.format("%.0f", nowMs + redis.call("PTTL", lockKey) + visitAfterMs)
    redis.call("ZADD", dueKey, visitAt, "lock " .. tenant .. " " .. listed)
  else
    redis.call("ZREM", start .. "locks:" .. tenant, listed)
    redis.call("ZREM", start .. "held:" .. tenant, listed)
  end
end
