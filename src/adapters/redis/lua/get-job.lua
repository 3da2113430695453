#!lua flags=no-writes
--[[
  Reads one job.
  KEYS[1] run: hash with one field "job:<id>" per job
  ARGV[2] jobId
  Returns {"job", now, job's text}, {"not_found", now} or {"too_late", now}
]]
--@include clock

local text = redis.call("HGET", KEYS[1], "job:" .. ARGV[2])
if not text then return { "not_found", now } end
return { "job", now, text }
