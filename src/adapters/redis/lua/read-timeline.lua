#!lua flags=no-writes
--[[
  Reads the timeline rows after a version, oldest first. Rows older than the number to keep are not there.
  KEYS[1] run: hash of the header and one field "row:<version>" per row
  ARGV[2] after  ARGV[3] limit  ARGV[4] timelineRowsMax
  Returns {"timeline", now, version, {version, row} of each, status}, {"not_found", now} or {"too_late", now}
]]
--@include clock

local run = redis.call("HMGET", KEYS[1], "status", "version")
if not run[1] then return { "not_found", now } end
local last = tonumber(run[2])
local from = math.max(tonumber(ARGV[2]), last - ARGV[4], 0) + 1
local wanted = tonumber(ARGV[3])
local rows = {}
while from <= last and #rows < wanted do
  local versions, fields = {}, {}
  for version = from, math.min(last, from + math.min(wanted, 900) - 1) do
    versions[#versions + 1] = string.format("%.0f", version)
    fields[#fields + 1] = "row:" .. versions[#versions]
  end
  for index, row in ipairs(redis.call("HMGET", KEYS[1], unpack(fields))) do
    if row and #rows < wanted then
      rows[#rows + 1] = { versions[index], row }
    end
  end
  from = from + #fields
end
return { "timeline", now, run[2], rows, run[1] }
