#!lua
--[[
  What the owner of a run needs to apply what waits.
  Reads: runKey, inboxKey, wantedFirst and wantedLast (indexes of the names of the records' fields wanted), entriesMax
  Sets: values (of the header's fields, then of those asked for), entries
]]
local values = redis.call("HMGET", runKey, "workflow", "definition", "status", "version", "actor", "admittedAt", "updatedAt",
  "endedAt", "cancel", "reservation", "parent", "gates", "place")
for first = wantedFirst, wantedLast, 900 do
  local slice = redis.call("HMGET", runKey, unpack(ARGV, first, math.min(wantedLast, first + 899)))
  for index = 1, #slice do values[#values + 1] = slice[index] end
end
local entries = redis.call("LRANGE", inboxKey, 0, entriesMax - 1)
