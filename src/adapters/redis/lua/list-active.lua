#!lua flags=no-writes
--[[
  Lists the runs that hold the tenant's slots, oldest first.
  KEYS[1] active: sorted set of those runs, by the time of their admission
  ARGV[1] notAfterMs  ARGV[2] limit
  Returns {"listed", now, run ids} or {"too_late", now}
]]
local time = redis.call("TIME")
local nowMs = time[1] * 1000 + math.floor(time[2] / 1000)
local now = string.format("%.0f", nowMs)
if nowMs > tonumber(ARGV[1]) then return { "too_late", now } end

return { "listed", now, redis.call("ZRANGE", KEYS[1], "-inf", "+inf", "BYSCORE", "LIMIT", "0", ARGV[2]) }
