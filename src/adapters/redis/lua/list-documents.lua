#!lua flags=no-writes
--[[
  Lists documents in the order of their ids.
  KEYS[1] documents: hash of "meta:<id>" ("<revision> <savedAt> <change>") and "body:<id>"
  KEYS[2] document ids: sorted set of all ids with score 0
  ARGV[2] after  ARGV[3] limit
  Returns {"listed", now, {id, meta, body} of each} or {"too_late", now}
]]
--@include clock

local ids = redis.call("ZRANGE", KEYS[2], "(" .. ARGV[2], "+", "BYLEX", "LIMIT", "0", ARGV[3])
local documents = {}
for first = 1, #ids, 450 do
  local fields = {}
  for index = first, math.min(#ids, first + 449) do
    fields[#fields + 1] = "meta:" .. ids[index]
    fields[#fields + 1] = "body:" .. ids[index]
  end
  local values = redis.call("HMGET", KEYS[1], unpack(fields))
  for index = 1, #values, 2 do
    documents[#documents + 1] = { ids[#documents + 1], values[index], values[index + 1] }
  end
end
return { "listed", now, documents }
