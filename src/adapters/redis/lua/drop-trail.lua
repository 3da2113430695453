#!lua flags=allow-oom
--[[
  Drops the audit records below a number, and adds the audited row that says so, unless none is left below it
  or the number is beyond the one that the row gets: repeated, it changes nothing.
  KEYS[1] events: stream with ids "0-<sequence>"
  KEYS[2] trail: stream of the audit records, with ids "0-<sequence>"
  ARGV[2] tenant  ARGV[3] below  ARGV[4] actor  ARGV[5] eventsMax  ARGV[6] trailMax
  Returns {"dropped", now} or {"too_late", now}
]]
--@include clock

local newest = redis.call("XREVRANGE", KEYS[2], "+", "-", "COUNT", 1)[1]
if not newest then return { "dropped", now } end
local oldest = redis.call("XRANGE", KEYS[2], "-", "+", "COUNT", 1)[1]
local last = tonumber(string.sub(newest[1], 3))
local first = math.max(tonumber(string.sub(oldest[1], 3)), last - ARGV[6] + 1)
local below = tonumber(ARGV[3])
if first >= below or below > last + 1 then return { "dropped", now } end

-- The row goes first: it is the only write that Redis can refuse, and before it nothing has happened. The streams count.
local detail = string.format("%.0f to %.0f", first, below - 1)
redis.call("XADD", KEYS[1], "MAXLEN", "~", ARGV[5], "0-*",
  "at", now, "type", "records_dropped", "subject", ARGV[2], "actor", ARGV[4], "detail", detail)
redis.call("XADD", KEYS[2], "MINID", "=", string.format("0-%.0f", below), "0-*",
  "at", now, "type", "records_dropped", "subject", ARGV[2], "actor", ARGV[4], "detail", detail)
return { "dropped", now }
