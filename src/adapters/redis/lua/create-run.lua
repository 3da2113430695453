#!lua
--[[
  Second half of the lock strategy: checks the limit again, creates the run and confirms its reservation.
  KEYS[1] start of all keys of the partition: most of what a change writes is only known here
  KEYS[2] due: sorted set of "<kind> <tenant> <subject>" by time
  KEYS[3] guard's lock: "<token> <instance> <fence>[ <owner>]", expires with the grant
  KEYS[4] guard's grant: "<token> <instance> <fence>[ <owner>] held|released|broken", memory of the last grant
  After notAfterMs the settings, as parts/call-settings.lua describes them
  ARGV[18] token  ARGV[19] fence  ARGV[20] policy  ARGV[21] ttlMs  ARGV[22] tenant  ARGV[23] runId
  ARGV[24] credential's word or ""  ARGV[25] workflow  ARGV[26] revision or ""  ARGV[27] definition  ARGV[28] actor
  ARGV[29] key's digest, or "" without an idempotency key  ARGV[30] fingerprint  ARGV[31] the entry that starts the run, or ""
  ARGV[32] its gates, as parts/judge-gates.lua describes them, or ""  ARGV[33] its rates, ARGV[34] the budgets of its workflow, as
  parts/judge-rates.lua describes them, or ""
  ARGV from 35 on: the change, as parts/plan-change.lua describes it
  Returns {"admitted", now, status, active, limit, claims, keysKept, early, {}[, rateLeft]}, {"reservation_lost", now} or
  {"too_late", now}, or an error code with its fields: {"stale_fence", now}, {"tenant_stopped", now}, {"unauthenticated", now}, {"version_conflict", now},
  {"max_concurrent_runs_reached", now, "limit", n, "active", n[, "gate", id]}, {"quota_reached", now, "quota", "active_runs", "limit", n},
  {"start_rate_exceeded", now, "rate", id, "retryAfterMs", ms}, {"budget_exhausted", now, "budget", id, "resetsAtMs", ms},
  {"idempotency_quota_reached", now, "quota", n}
]]
--@include clock

local start, dueKey = KEYS[1], KEYS[2]
--@include call-settings
--@include tenants
--@include use-limits
--@include add-later
--@include terminal
local tenant, runId, credential, workflow, revision = ARGV[22], ARGV[23], ARGV[24], ARGV[25], ARGV[26]
local definition, actor, digest, fingerprint, started, plan = ARGV[27], ARGV[28], ARGV[29], ARGV[30], ARGV[31], ARGV[32]
local ratesText, budgetsText, at, known = ARGV[33], ARGV[34], 35, tenantOf(tenant)
local settings, runKey = settingsOf(known), known.runPrefix .. runId
local limit, runningKey, limits = settings.limit, known.runningKey, settings.limits
--@include worker-word
--@include places
--@include use-gates
local run = redis.call("HMGET", runKey, "status", "buried")
local current = run[1] or run[2]
known.active = redis.call("ZCARD", known.activeKey)
if current then
  --@include granted-claims
  return { "admitted", now, current, known.active, limit, granted, digest ~= "" and redis.call("ZCARD", known.keyedKey) or "", "",
    {}, ratesText ~= "" and useLimits().left(known, ratesText) or nil }
end

local lock = redis.call("GET", KEYS[3])
local grant = redis.call("GET", KEYS[4])
local value, token, grantFence, state = string.match(grant or "", "^(([^ ]+) [^ ]+ ([^ ]+).-) ([^ ]+)$")
if token ~= ARGV[18] or grantFence ~= ARGV[19] then return { "stale_fence", now } end
if not lock and (ARGV[20] ~= "continue" or state ~= "held") then return { "stale_fence", now } end
local retake = not lock and {
  { "SET", KEYS[3], value, "PX", ARGV[21] },
  { "SET", KEYS[4], grant, "PX", string.format("%.0f", ARGV[21] + grantMemoryMs) },
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
-- Nobody waits under a lock.
local mayWait = false
--@include judge-rates
if refused then return refused end
--@include judge-gates
if refused then return refused end
local runQuota = tonumber(settings.activeMax) or activeMax
if known.active + waitingInAll >= runQuota then return { "quota_reached", now, "quota", "active_runs", "limit", runQuota } end
--@include insert-run
writeLater()
local left = ratesText ~= "" and useLimits().left(known, ratesText) or nil
return { "admitted", now, status, active, limit, claims, keysKept, early, {}, left }
