#!lua flags=no-writes
--[[
  Reads one approval.
  KEYS[1] approval: hash of its fields
  ARGV[1] notAfterMs
  Returns {"approval", now, names and values in turn}, {"not_found", now} or {"too_late", now}
]]
local time = redis.call("TIME")
local nowMs = time[1] * 1000 + math.floor(time[2] / 1000)
local now = string.format("%.0f", nowMs)
if nowMs > tonumber(ARGV[1]) then return { "too_late", now } end

local fields = redis.call("HGETALL", KEYS[1])
if #fields == 0 then return { "not_found", now } end
return { "approval", now, fields }
