#!lua flags=no-writes
--[[
  Reads one job.
  KEYS[1] run: hash with one field "job:<id>" per job
  ARGV[1] notAfterMs  ARGV[2] jobId
  Returns {"job", now, job's text}, {"not_found", now} or {"too_late", now}
]]
local time = redis.call("TIME")
local nowMs = time[1] * 1000 + math.floor(time[2] / 1000)
local now = string.format("%.0f", nowMs)
if nowMs > tonumber(ARGV[1]) then return { "too_late", now } end

local text = redis.call("HGET", KEYS[1], "job:" .. ARGV[2])
if not text then return { "not_found", now } end
return { "job", now, text }
