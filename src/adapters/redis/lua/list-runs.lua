#!lua flags=no-writes
--[[
  Lists runs, newest first. It looks at 500 at most: next says where to go on.
  KEYS[1] runs: sorted set of all run ids with score 0
  KEYS[2] prefix of run keys: hashes of the header's fields among others
  ARGV[2] "+", or "(" and the id to begin after  ARGV[3] limit
  ARGV[4] status, or "" for all  ARGV[5] workflow, or "" for all
  ARGV from 6 on: the names of the header's fields
  Returns {"listed", now, next or "", {id, values} of each} or {"too_late", now}
]]
--@include clock

local limit = tonumber(ARGV[3])
local filtered = ARGV[4] ~= "" or ARGV[5] ~= ""
local function isWanted(runKey)
  local run = redis.call("HMGET", runKey, "status", "workflow")
  return (ARGV[4] == "" or run[1] == ARGV[4]) and (ARGV[5] == "" or run[2] == ARGV[5])
end

local ids = redis.call("ZRANGE", KEYS[1], ARGV[2], "-", "BYLEX", "REV", "LIMIT", "0", "500")
local listed = {}
for _, id in ipairs(ids) do
  local runKey = KEYS[2] .. id
  if not filtered or isWanted(runKey) then
    listed[#listed + 1] = { id, redis.call("HMGET", runKey, unpack(ARGV, 6)) }
  end
  if #listed == limit then return { "listed", now, id, listed } end
end
return { "listed", now, #ids == 500 and ids[500] or "", listed }
