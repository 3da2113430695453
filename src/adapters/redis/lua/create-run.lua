#!lua
--[[
  Second half of the lock strategy: checks the limit again, creates the run and confirms its reservation.
  KEYS[1] tenant: hash with limit, stopped, revoked, limits, quota:active_runs ("" means not set)
  KEYS[2] run: hash of the header's fields, and fields "record:<key>", "job:<id>", "row:<version>"
  KEYS[3] active: sorted set of the runs that hold the tenant's slots, by the time of their admission
  KEYS[4] events: stream with ids "0-<sequence>"
  KEYS[5] runs: sorted set of all the tenant's runs, all with score 0
  KEYS[6] due: sorted set of "<kind> <tenant> <subject>" by time
  KEYS[7] start of all keys of the partition: most of what a change writes is only known here
  KEYS[8] guard's lock: "<token> <instance> <fence>[ <owner>]", expires with the grant
  KEYS[9] guard's grant: "<token> <instance> <fence>[ <owner>] held|released|broken", memory of the last grant
  KEYS[10] reservation: "pending <run> <fingerprint> <token>" or "bound <run> <fingerprint>[ <final status>]";
           this key and the next are absent when the request has no idempotency key
  KEYS[11] keyed: sorted set of the tenant's idempotency keys, by when they end
  ARGV[2] token  ARGV[3] fence  ARGV[4] policy  ARGV[5] ttlMs  ARGV[6] grantMemoryMs
  ARGV[7] runId  ARGV[8] eventsMax  ARGV[9] tenant  ARGV[10] credential's word or ""
  ARGV[11] workflow  ARGV[12] revision or ""  ARGV[13] definition  ARGV[14] actor  ARGV[15] key's digest
  ARGV[16] fingerprint  ARGV[17] quota of keys  ARGV[18] the entry that starts the run, or ""  ARGV[19] attentionMs
  ARGV[20] quota of active runs
  ARGV from 21 on: the change, as parts/plan-change.lua describes it
  Returns {"admitted", now, status, active, limit, claims, keysKept, early}, {"reservation_lost", now} or {"too_late", now}, or an error code
  with its fields: {"stale_fence", now}, {"tenant_stopped", now}, {"unauthenticated", now}, {"version_conflict", now},
  {"max_concurrent_runs_reached", now, "limit", n, "active", n}, {"quota_reached", now, "quota", "active_runs", "limit", n},
  {"idempotency_quota_reached", now, "quota", n}
]]
--@include clock

local runId, tenant, runKey, start, at = ARGV[7], ARGV[9], KEYS[2], KEYS[7], 21
local settings = redis.call("HMGET", KEYS[1], "limit", "stopped", "revoked", "limits", "quota:active_runs")
local limit = settings[1] or ""
local run = redis.call("HMGET", runKey, "status", "buried")
local current = run[1] or run[2]
local active = redis.call("ZCARD", KEYS[3])
if current then
  --@include granted-claims
  return { "admitted", now, current, active, limit, granted, KEYS[10] and redis.call("ZCARD", KEYS[11]) or "", "" }
end

local lock = redis.call("GET", KEYS[8])
local grant = redis.call("GET", KEYS[9])
local value, token, grantFence, state = string.match(grant or "", "^(([^ ]+) [^ ]+ ([^ ]+).-) ([^ ]+)$")
if token ~= ARGV[2] or grantFence ~= ARGV[3] then return { "stale_fence", now } end
if not lock and (ARGV[4] ~= "continue" or state ~= "held") then return { "stale_fence", now } end
local retake = not lock and {
  { "SET", KEYS[8], value, "PX", ARGV[5] },
  { "SET", KEYS[9], grant, "PX", string.format("%.0f", ARGV[5] + ARGV[6]) },
}

if ARGV[10] ~= "" and string.find(settings[3] or "", " " .. ARGV[10] .. " ", 1, true) then
  return { "unauthenticated", now }
end
local held = false
if KEYS[10] then
  held = redis.call("GET", KEYS[10])
  if held ~= "pending " .. runId .. " " .. ARGV[16] .. " " .. ARGV[2] then return { "reservation_lost", now } end
end
local stopped, revoked, limits = settings[2] == "true", settings[3] or "", settings[4] or ""
if stopped then return { "tenant_stopped", now } end
if ARGV[12] ~= "" then
  local found = redis.call("HMGET", start .. "documents:" .. tenant .. ":workflow", "meta:" .. ARGV[11], "body:" .. ARGV[11])
  -- The revision alone does not say it: after a loss its number comes again, with another definition.
  if string.match(found[1] or "", "^[^ ]+") ~= ARGV[12] or not string.find(found[2] or "", '"' .. ARGV[13] .. '"', 1, true) then
    return { "version_conflict", now }
  end
end
if limit ~= "" and active >= tonumber(limit) then
  return { "max_concurrent_runs_reached", now, "limit", tonumber(limit), "active", active }
end
local runQuota = tonumber(settings[5] or "") or tonumber(ARGV[20])
if active >= runQuota then return { "quota_reached", now, "quota", "active_runs", "limit", runQuota } end

local activeKey, runsKey, eventsKey, dueKey = KEYS[3], KEYS[5], KEYS[4], KEYS[6]
local reservationKey, keyedKey, digest, fingerprint, quota = KEYS[10], KEYS[11], ARGV[15], ARGV[16], ARGV[17]
local workflow, definition, actor, eventsMax = ARGV[11], ARGV[13], ARGV[14], ARGV[8]
local started, attentionMs = ARGV[18], ARGV[19]
--@include insert-run
return { "admitted", now, status, active, limit, claims, keysKept, early }
