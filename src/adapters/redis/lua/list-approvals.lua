#!lua flags=no-writes
--[[
  Lists approvals, those of the newest runs first. It looks at 500 at most: next says where to go on.
  KEYS[1] approvals: sorted set of all ids with score 0
  KEYS[2] prefix of approval keys: hashes of an approval's fields
  ARGV[2] "+", or "(" and the id to begin after  ARGV[3] limit  ARGV[4] state, or "" for all
  Returns {"listed", now, next or "", {id, names and values in turn} of each} or {"too_late", now}
]]
--@include clock

local limit = tonumber(ARGV[3])
local ids = redis.call("ZRANGE", KEYS[1], ARGV[2], "-", "BYLEX", "REV", "LIMIT", "0", "500")
local listed = {}
for _, id in ipairs(ids) do
  if ARGV[4] == "" or redis.call("HGET", KEYS[2] .. id, "state") == ARGV[4] then
    listed[#listed + 1] = { id, redis.call("HGETALL", KEYS[2] .. id) }
  end
  if #listed == limit then return { "listed", now, id, listed } end
end
return { "listed", now, #ids == 500 and ids[500] or "", listed }
