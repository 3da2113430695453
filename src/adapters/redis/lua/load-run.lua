#!lua flags=no-writes
--[[
  Reads a run's header and the records asked for. A run's jobs and rows are in the same hash: only names are read whole.
  KEYS[1] run: hash of the header's fields, and of "record:<key>", "job:<id>" and "row:<version>"
  ARGV[2] "all" or "named"  ARGV[3] recordsMax, for all
  ARGV from 4 on: the names of the fields wanted; header fields come first
  Returns {"run", now, values in the order asked, names of the other records, their values}, {"not_found", now}
  or {"too_late", now}
]]
--@include clock

local function valuesOf(names, from)
  local values = {}
  for first = from, #names, 900 do
    for _, value in ipairs(redis.call("HMGET", KEYS[1], unpack(names, first, math.min(#names, first + 899)))) do
      values[#values + 1] = value
    end
  end
  return values
end

if not redis.call("HGET", KEYS[1], "status") then return { "not_found", now } end
local asked = valuesOf(ARGV, 4)
if ARGV[2] == "named" then return { "run", now, asked, {}, {} } end
local names = {}
for _, name in ipairs(redis.call("HKEYS", KEYS[1])) do
  if string.sub(name, 1, 7) == "record:" then names[#names + 1] = name end
end
local recordsMax = tonumber(ARGV[3])
if #names > recordsMax then
  table.sort(names)
  for index = #names, recordsMax + 1, -1 do names[index] = nil end
end
return { "run", now, asked, names, valuesOf(names, 1) }
