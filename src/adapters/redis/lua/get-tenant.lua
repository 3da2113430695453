#!lua flags=no-writes
--[[
  Reads a tenant's settings and their version.
  KEYS[1] tenant: hash with version, settings (as JSON)
  ARGV[1] notAfterMs
  Returns {"tenant", now, version, settings as JSON} or {"too_late", now}
]]
local time = redis.call("TIME")
local nowMs = time[1] * 1000 + math.floor(time[2] / 1000)
local now = string.format("%.0f", nowMs)
if nowMs > tonumber(ARGV[1]) then return { "too_late", now } end

local tenant = redis.call("HMGET", KEYS[1], "version", "settings")
return { "tenant", now, tenant[1] or "0", tenant[2] or "{}" }
