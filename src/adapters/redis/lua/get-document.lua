#!lua flags=no-writes
--[[
  Reads one document.
  KEYS[1] documents: hash of "meta:<id>" ("<revision> <savedAt> <change>") and "body:<id>"
  ARGV[1] notAfterMs  ARGV[2] id
  Returns {"document", now, meta, body}, {"not_found", now} or {"too_late", now}
]]
local time = redis.call("TIME")
local nowMs = time[1] * 1000 + math.floor(time[2] / 1000)
local now = string.format("%.0f", nowMs)
if nowMs > tonumber(ARGV[1]) then return { "too_late", now } end

local document = redis.call("HMGET", KEYS[1], "meta:" .. ARGV[2], "body:" .. ARGV[2])
if not document[1] then return { "not_found", now } end
return { "document", now, document[1], document[2] }
