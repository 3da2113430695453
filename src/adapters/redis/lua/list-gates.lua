#!lua flags=no-writes
--[[
  Lists the gates at which runs of a tenant wait.
  KEYS[1] start of all keys of the partition: the gates are only known here
  KEYS[2] due: sorted set of "<kind> <tenant> <subject>" by time
  ARGV[2] tenant  ARGV[3] after  ARGV[4] limit
  Returns {"listed", now, {gate, limit or "", active, waiting} of each, all runs that wait} or {"too_late", now}
]]
--@include clock

local start, dueKey = KEYS[1], KEYS[2]
--@include tenants
--@include gates
--@include gate-queues
--@include gate-row
local known = tenantOf(ARGV[2])
local rows = {}
for _, id in ipairs(redis.call("ZRANGE", known.gateQueuesKey, "(" .. ARGV[3], "+", "BYLEX", "LIMIT", "0", ARGV[4])) do
  rows[#rows + 1] = rowOf(known, id)
end
return { "listed", now, rows, redis.call("ZCARD", known.queuedKey) }
