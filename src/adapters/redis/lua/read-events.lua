#!lua flags=no-writes
--[[
  Reads the event rows after a sequence number, in order. The stream drops rows in whole nodes (dropping each one
  exactly made an admission a sixth slower), so that rows beyond the number to keep may still be there: they are hidden.
  KEYS[1] events: stream with ids "0-<sequence>" and the fields at, type, subject, actor, detail
  ARGV[1] notAfterMs  ARGV[2] after  ARGV[3] limit  ARGV[4] eventsMax
  Returns {"events", now, rows as XRANGE gives them} or {"too_late", now}
]]
local time = redis.call("TIME")
local nowMs = time[1] * 1000 + math.floor(time[2] / 1000)
local now = string.format("%.0f", nowMs)
if nowMs > tonumber(ARGV[1]) then return { "too_late", now } end

local last = redis.call("XREVRANGE", KEYS[1], "+", "-", "COUNT", 1)[1]
local sequence = last and string.sub(last[1], 3) or 0
local after = string.format("%.0f", math.max(ARGV[2], sequence - ARGV[4], 0))
return { "events", now, redis.call("XRANGE", KEYS[1], "(0-" .. after, "+", "COUNT", ARGV[3]) or {} }
