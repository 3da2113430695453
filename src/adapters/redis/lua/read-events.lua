#!lua flags=no-writes
--[[
  Reads the rows of the event feed or of the audit trail after a sequence number, in order. The stream drops rows in whole nodes (dropping each one
  exactly made an admission a sixth slower), so that rows beyond the number to keep may still be there: they are hidden.
  KEYS[1] events or trail: stream with ids "0-<sequence>" and the fields at, type, subject, actor, detail
  ARGV[2] after  ARGV[3] limit  ARGV[4] eventsMax or trailMax
  Returns {"events", now, rows as XRANGE gives them, first number kept, last number} or {"too_late", now}
]]
--@include clock

local newest = redis.call("XREVRANGE", KEYS[1], "+", "-", "COUNT", 1)[1]
if not newest then return { "events", now, {}, "1", "0" } end
local oldest = redis.call("XRANGE", KEYS[1], "-", "+", "COUNT", 1)[1]
local last = tonumber(string.sub(newest[1], 3))
local first = math.max(tonumber(string.sub(oldest[1], 3)), last - ARGV[4] + 1)
local after = string.format("%.0f", math.max(ARGV[2], first - 1))
return {
  "events", now, redis.call("XRANGE", KEYS[1], "(0-" .. after, "+", "COUNT", ARGV[3]) or {},
  string.format("%.0f", first), string.format("%.0f", last),
}
