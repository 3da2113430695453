#!lua flags=no-writes
--[[
  Reads a run's header and the records asked for.
  KEYS[1] run: hash of the header's fields and one field "record:<key>" per record
  ARGV[1] notAfterMs  ARGV[2] "all" or "named"
  ARGV from 3 on: the names of the fields wanted; header fields come first
  Returns {"run", now, names and values in turn} for all, {"run", now, values in the order asked} for named,
  {"not_found", now} or {"too_late", now}
]]
local time = redis.call("TIME")
local nowMs = time[1] * 1000 + math.floor(time[2] / 1000)
local now = string.format("%.0f", nowMs)
if nowMs > tonumber(ARGV[1]) then return { "too_late", now } end

if not redis.call("HGET", KEYS[1], "status") then return { "not_found", now } end
if ARGV[2] == "all" then return { "run", now, redis.call("HGETALL", KEYS[1]) } end
local values = {}
for first = 3, #ARGV, 900 do
  for _, value in ipairs(redis.call("HMGET", KEYS[1], unpack(ARGV, first, math.min(#ARGV, first + 899)))) do
    values[#values + 1] = value
  end
end
return { "run", now, values }
