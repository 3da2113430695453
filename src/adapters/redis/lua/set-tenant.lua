#!lua
--[[
  Replaces a tenant's settings if nobody changed them since the expected version, and adds an audited row.
  KEYS[1] tenant: hash with limit, strategy, wait, stopped, revoked, limits, gates, budgets, removed, quota:<name> ("" means not set),
  settings, version, change
  KEYS[2] events: stream with ids "0-<sequence>"
  KEYS[3] trail: stream of the audit records, with ids "0-<sequence>"
  KEYS[4] due: sorted set of "<kind> <tenant> <subject>" by time
  KEYS[5] parked lines: sorted set of the budgets that hold jobs
  ARGV[2] tenant  ARGV[3] expectedVersion  ARGV[4] changeId  ARGV[5] actor  ARGV[6] eventsMax
  ARGV[7] limit  ARGV[8] strategy  ARGV[9] wait  ARGV[10] stopped
  ARGV[11] revoked keys, each between two spaces  ARGV[12] all settings as JSON
  ARGV[13] limits of topics and pools, as parts/places.lua describes them
  ARGV[14] credential's word or ""  ARGV[15] "true" when the tenant is removed, or ""
  ARGV[16] trailMax  ARGV[17] limits of named gates, each "<name>=<max>" between two spaces, or ""
  ARGV[18] budgets, each "<name>~<unit>~<per>=<amount>,<at limit>" between two spaces, or ""
  ARGV from 19 on: names and values of the tenant's own quotas, "" for those that it does not have
  Returns {"saved", now, "version", n}, {"version_conflict", now, "version", n}, {"unauthenticated", now} or {"too_late", now}
]]
--@include clock
local eventsKey, trailKey, eventsMax, trailMax = KEYS[2], KEYS[3], ARGV[6], ARGV[16]
--@include add-audited

local tenant = redis.call("HMGET", KEYS[1], "version", "change", "revoked")
local version = tenant[1] or "0"
local nextVersion = string.format("%.0f", ARGV[3] + 1)
if version == nextVersion and (tenant[2] or "") == ARGV[4] then return { "saved", now, "version", tonumber(version) } end
if ARGV[14] ~= "" and string.find(tenant[3] or "", " " .. ARGV[14] .. " ", 1, true) then
  return { "unauthenticated", now }
end
if version ~= ARGV[3] then return { "version_conflict", now, "version", tonumber(version) } end
redis.call("ZCARD", KEYS[4]) -- Refuses a key of another type while nothing is written yet.
local anyParked = redis.call("ZCARD", KEYS[5]) > 0

addAudited("tenant_changed", ARGV[2], ARGV[5], ARGV[4])
redis.call("HSET", KEYS[1], "version", nextVersion, "change", ARGV[4],
  "limit", ARGV[7], "strategy", ARGV[8], "wait", ARGV[9], "stopped", ARGV[10], "revoked", ARGV[11],
  "settings", ARGV[12], "limits", ARGV[13], "gates", ARGV[17], "budgets", ARGV[18], "removed", ARGV[15], unpack(ARGV, 19))
-- Where runs wait, there is a visit of their gates: it comes at once, unless nothing is handed on now.
if ARGV[10] ~= "true" then redis.call("ZADD", KEYS[4], "XX", "LT", now, "gates " .. ARGV[2] .. " ") end
if anyParked then redis.call("ZADD", KEYS[4], now, "budgets " .. ARGV[2] .. " ") end
return { "saved", now, "version", tonumber(nextVersion) }
