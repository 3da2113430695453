#!lua flags=no-writes
--[[
  Counts the runs that hold the tenant's slots.
  KEYS[1] active: sorted set of those runs, by the time of their admission
  KEYS[2] tenant: hash with limit, stopped ("" means not set)
  ARGV[1] notAfterMs
  Returns {"counted", now, active, limit, stopped} or {"too_late", now}
]]
local time = redis.call("TIME")
local nowMs = time[1] * 1000 + math.floor(time[2] / 1000)
local now = string.format("%.0f", nowMs)
if nowMs > tonumber(ARGV[1]) then return { "too_late", now } end

local tenant = redis.call("HMGET", KEYS[2], "limit", "stopped")
return { "counted", now, redis.call("ZCARD", KEYS[1]), tenant[1] or "", tenant[2] or "" }
