#!lua flags=no-writes
--[[
  Describes a gate: the runs that hold its places, oldest first, and those that wait, in the order in which they would be
  granted now.
  KEYS[1] start of all keys of the partition: the runs are only known here
  KEYS[2] due: sorted set of "<kind> <tenant> <subject>" by time
  ARGV[2] tenant  ARGV[3] gate  ARGV[4] limit
  ARGV from 5 on: the names of the header's fields, the status among them
  Returns {"gate", now, {gate, limit or "", active, waiting}, {id, values} of the holders, the same of those that wait} or {"too_late", now}
]]
--@include clock

local start, dueKey = KEYS[1], KEYS[2]
--@include tenants
--@include gates
--@include gate-queues
--@include gate-row
local known, limit = tenantOf(ARGV[2]), tonumber(ARGV[4])
local holders, waiting = {}, {}
local function describe(rows, id)
  local runKey = known.runPrefix .. id
  if redis.call("HEXISTS", runKey, "status") == 1 then
    rows[#rows + 1] = { id, redis.call("HMGET", runKey, unpack(ARGV, 5)) }
  end
end
local gate = gates.of(known, ARGV[3])
for _, id in ipairs(redis.call("ZRANGE", gate.placesKey, 0, limit - 1)) do describe(holders, id) end
for _, run in ipairs(queues.orderOf(known, gate, limit)) do describe(waiting, run.id) end
return { "gate", now, rowOf(known, gate.id), holders, waiting }
