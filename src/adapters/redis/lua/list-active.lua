#!lua flags=no-writes
--[[
  Lists the runs that hold the tenant's slots, oldest first, and describes the first of them.
  KEYS[1] active: sorted set of those runs, by the time of their admission
  KEYS[2] prefix of run keys: hashes of the header's fields among others
  ARGV[2] limit  ARGV[3] how many to describe
  ARGV from 4 on: the names of the header's fields, the status among them
  Returns {"listed", now, run ids, {id, values} of those described} or {"too_late", now}
]]
--@include clock

local ids = redis.call("ZRANGE", KEYS[1], "-inf", "+inf", "BYSCORE", "LIMIT", "0", ARGV[2])
local described = {}
for index = 1, math.min(#ids, tonumber(ARGV[3])) do
  local runKey = KEYS[2] .. ids[index]
  if redis.call("HEXISTS", runKey, "status") == 1 then
    described[#described + 1] = { ids[index], redis.call("HMGET", runKey, unpack(ARGV, 4)) }
  end
end
return { "listed", now, ids, described }
