#!lua
--[[
  The whole admission decision: key, limit, slot, run, event. The hot path: every call and every string counts.
  KEYS[1] tenant: hash with limit, stopped, revoked, limits, quota:active_runs ("" means not set)
  KEYS[2] run: hash of the header's fields, and fields "record:<key>", "job:<id>", "row:<version>"
  KEYS[3] active: sorted set of the runs that hold the tenant's slots, by the time of their admission
  KEYS[4] events: stream with ids "0-<sequence>"
  KEYS[5] runs: sorted set of all the tenant's runs, all with score 0
  KEYS[6] due: sorted set of "<kind> <tenant> <subject>" by time
  KEYS[7] start of all keys of the partition: most of what a change writes is only known here
  KEYS[8] reservation: "pending <run> <fingerprint> <token>" or "bound <run> <fingerprint>[ <final status>]";
          this key and the next are absent when the request has no idempotency key
  KEYS[9] keyed: sorted set of the tenant's idempotency keys, by when they end
  ARGV[2] runId  ARGV[3] eventsMax  ARGV[4] tenant  ARGV[5] credential's word or ""
  ARGV[6] workflow  ARGV[7] revision or ""  ARGV[8] definition  ARGV[9] actor  ARGV[10] key's digest
  ARGV[11] fingerprint  ARGV[12] quota of keys  ARGV[13] the entry that starts the run, or ""  ARGV[14] attentionMs
  ARGV[15] quota of active runs
  ARGV from 16 on: the change, as parts/plan-change.lua describes it
  Returns {"admitted", now, status, active, limit, claims, keysKept, early}, {"replayed", now, "runId", id, "status", status} or {"too_late", now}, or an
  error code with its fields: {"idempotency_key_reused", now}, {"idempotency_key_in_flight", now}, {"tenant_stopped", now},
  {"unauthenticated", now}, {"version_conflict", now}, {"max_concurrent_runs_reached", now, "limit", n, "active", n},
  {"quota_reached", now, "quota", "active_runs", "limit", n}, {"idempotency_quota_reached", now, "quota", n}
]]
--@include clock

local runId, tenant, runKey, start, at = ARGV[2], ARGV[4], KEYS[2], KEYS[7], 16
local settings = redis.call("HMGET", KEYS[1], "limit", "stopped", "revoked", "limits", "quota:active_runs")
local limit = settings[1] or ""
local run = redis.call("HMGET", runKey, "status", "buried")
local current = run[1] or run[2]
local active = redis.call("ZCARD", KEYS[3])
if current then
  --@include granted-claims
  return { "admitted", now, current, active, limit, granted, KEYS[8] and redis.call("ZCARD", KEYS[9]) or "", "" }
end
if ARGV[5] ~= "" and string.find(settings[3] or "", " " .. ARGV[5] .. " ", 1, true) then
  return { "unauthenticated", now }
end
local held = false
if KEYS[8] then
  held = redis.call("GET", KEYS[8])
  if held then
    local state, owner, fingerprint, last = string.match(held, "^(%a+) ([^ ]+) ([^ ]+) ?([^ ]*)$")
    if state == "bound" then
      if fingerprint ~= ARGV[11] then return { "idempotency_key_reused", now } end
      local status = redis.call("HGET", start .. "run:" .. tenant .. ":" .. owner, "status")
      return { "replayed", now, "runId", owner, "status", status or (last ~= "" and last or "pending") }
    end
    -- A pending reservation lives only as long as its owner holds the admission lock.
    local lock = redis.call("GET", start .. "wf:run:admission:" .. tenant)
    if lock and string.match(lock, "^[^ ]+") == last and owner ~= runId then return { "idempotency_key_in_flight", now } end
  end
end
local stopped, revoked, limits = settings[2] == "true", settings[3] or "", settings[4] or ""
if stopped then return { "tenant_stopped", now } end
if ARGV[7] ~= "" then
  local found = redis.call("HMGET", start .. "documents:" .. tenant .. ":workflow", "meta:" .. ARGV[6], "body:" .. ARGV[6])
  -- The revision alone does not say it: after a loss its number comes again, with another definition.
  if string.match(found[1] or "", "^[^ ]+") ~= ARGV[7] or not string.find(found[2] or "", '"' .. ARGV[8] .. '"', 1, true) then
    return { "version_conflict", now }
  end
end
if limit ~= "" and active >= tonumber(limit) then
  return { "max_concurrent_runs_reached", now, "limit", tonumber(limit), "active", active }
end
local runQuota = tonumber(settings[5] or "") or tonumber(ARGV[15])
if active >= runQuota then return { "quota_reached", now, "quota", "active_runs", "limit", runQuota } end

local activeKey, runsKey, eventsKey, dueKey = KEYS[3], KEYS[5], KEYS[4], KEYS[6]
local reservationKey, keyedKey, digest, fingerprint, quota = KEYS[8], KEYS[9], ARGV[10], ARGV[11], ARGV[12]
local workflow, definition, actor, eventsMax = ARGV[6], ARGV[8], ARGV[9], ARGV[3]
local started, attentionMs, retake = ARGV[13], ARGV[14], nil
--@include insert-run
return { "admitted", now, status, active, limit, claims, keysKept, early }
