#!lua flags=no-writes
--[[
  Reads the event rows after a sequence number, in order.
  KEYS[1] events: stream with ids "<sequence>-0" and the fields at, type, subject, actor, detail
  ARGV[1] notAfterMs  ARGV[2] after  ARGV[3] limit
  Returns {"events", now, rows as XRANGE gives them} or {"too_late", now}
]]
local time = redis.call("TIME")
local nowMs = time[1] * 1000 + math.floor(time[2] / 1000)
local now = string.format("%.0f", nowMs)
if nowMs > tonumber(ARGV[1]) then return { "too_late", now } end

return { "events", now, redis.call("XRANGE", KEYS[1], "(" .. ARGV[2] .. "-0", "+", "COUNT", ARGV[3]) or {} }
