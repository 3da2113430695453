#!lua flags=no-writes
--[[
  Lists what the budgets of a tenant have spent, by period.
  KEYS[1] start of all keys of the partition: the budgets are only known here
  KEYS[2] due: sorted set of "<kind> <tenant> <subject>" by time
  ARGV[2] tenant  ARGV[3] after  ARGV[4] limit
  Returns {"listed", now, {ledger, spent, reserved, crossed, first, amount or -1, parked} of each} or {"too_late", now}
]]
--@include clock

local start, dueKey = KEYS[1], KEYS[2]
--@include tenants
--@include budgets
local known = tenantOf(ARGV[2])
local rows = {}
for _, name in ipairs(redis.call("ZRANGE", start .. "ledger-ids:" .. known.id, "(" .. ARGV[3], "+", "BYLEX", "LIMIT", "0", ARGV[4])) do
  local id, startMs = string.match(name, "^([^ ]+) ([0-9]+)$")
  local ledger = budgets.ledgerOf(known, id, tonumber(startMs))
  rows[#rows + 1] = {
    name, string.format("%.0f", ledger.spent), string.format("%.0f", ledger.reserved), ledger.crossed, ledger.first,
    string.format("%.0f", budgets.amountOf(known, id) or -1), redis.call("ZCARD", (budgets.lineOf(known, id))),
  }
end
return { "listed", now, rows }
