#!lua
--[[
  Second half of the lock strategy: checks the limit again, creates the run and confirms its reservation.
  KEYS[1] start of all keys of the partition: most of what a change writes is only known here
  KEYS[2] due: sorted set of "<kind> <tenant> <subject>" by time
  KEYS[3] guard's lock: "<token> <instance> <fence>[ <owner>]", expires with the grant
  KEYS[4] guard's grant: "<token> <instance> <fence>[ <owner>] held|released|broken", memory of the last grant
  After notAfterMs the settings, as parts/call-settings.lua describes them
  ARGV[17] token  ARGV[18] fence  ARGV[19] policy  ARGV[20] ttlMs  ARGV[21] tenant  ARGV[22] runId
  ARGV[23] credential's word or ""  ARGV[24] workflow  ARGV[25] revision or ""  ARGV[26] definition  ARGV[27] actor
  ARGV[28] key's digest, or "" without an idempotency key  ARGV[29] fingerprint  ARGV[30] the entry that starts the run, or ""
  ARGV from 31 on: the change, as parts/plan-change.lua describes it
  Returns {"admitted", now, status, active, limit, claims, keysKept, early}, {"reservation_lost", now} or {"too_late", now}, or an error code
  with its fields: {"stale_fence", now}, {"tenant_stopped", now}, {"unauthenticated", now}, {"version_conflict", now},
  {"max_concurrent_runs_reached", now, "limit", n, "active", n}, {"quota_reached", now, "quota", "active_runs", "limit", n},
  {"idempotency_quota_reached", now, "quota", n}
]]
--@include clock

local start, dueKey = KEYS[1], KEYS[2]
--@include call-settings
--@include tenants
--@include add-later
--@include terminal
local tenant, runId, credential, workflow, revision = ARGV[21], ARGV[22], ARGV[23], ARGV[24], ARGV[25]
local definition, actor, digest, fingerprint, started = ARGV[26], ARGV[27], ARGV[28], ARGV[29], ARGV[30]
local at, known = 31, tenantOf(tenant)
local settings, runKey = settingsOf(known), known.runPrefix .. runId
local limit, runningKey, limits = settings.limit, known.runningKey, settings.limits
--@include worker-word
--@include places
local run = redis.call("HMGET", runKey, "status", "buried")
local current = run[1] or run[2]
known.active = redis.call("ZCARD", known.activeKey)
if current then
  --@include granted-claims
  return { "admitted", now, current, known.active, limit, granted, digest ~= "" and redis.call("ZCARD", known.keyedKey) or "", "" }
end

local lock = redis.call("GET", KEYS[3])
local grant = redis.call("GET", KEYS[4])
local value, token, grantFence, state = string.match(grant or "", "^(([^ ]+) [^ ]+ ([^ ]+).-) ([^ ]+)$")
if token ~= ARGV[17] or grantFence ~= ARGV[18] then return { "stale_fence", now } end
if not lock and (ARGV[19] ~= "continue" or state ~= "held") then return { "stale_fence", now } end
local retake = not lock and {
  { "SET", KEYS[3], value, "PX", ARGV[20] },
  { "SET", KEYS[4], grant, "PX", string.format("%.0f", ARGV[20] + grantMemoryMs) },
}

if credential ~= "" and string.find(settings.revoked, " " .. credential .. " ", 1, true) then
  return { "unauthenticated", now }
end
local reservationKey, held = digest ~= "" and known.reservationPrefix .. digest, false
if reservationKey then
  held = redis.call("GET", reservationKey)
  if held ~= "pending " .. runId .. " " .. fingerprint .. " " .. token then return { "reservation_lost", now } end
end
if settings.stopped then return { "tenant_stopped", now } end
if revision ~= "" then
  local found = redis.call("HMGET", start .. "documents:" .. tenant .. ":workflow", "meta:" .. workflow, "body:" .. workflow)
  -- The revision alone does not say it: after a loss its number comes again, with another definition.
  if string.match(found[1] or "", "^[^ ]+") ~= revision or not string.find(found[2] or "", '"' .. definition .. '"', 1, true) then
    return { "version_conflict", now }
  end
end
if limit ~= "" and known.active >= tonumber(limit) then
  return { "max_concurrent_runs_reached", now, "limit", tonumber(limit), "active", known.active }
end
local runQuota = tonumber(settings.activeMax) or activeMax
if known.active >= runQuota then return { "quota_reached", now, "quota", "active_runs", "limit", runQuota } end
--@include insert-run
writeLater()
return { "admitted", now, status, active, limit, claims, keysKept, early }
