#!lua
--[[
  The whole admission decision: key, limit, slot, run, event. The hot path: every call and every string counts.
  KEYS[1] start of all keys of the partition: which tenants and runs the items name is only known here
  KEYS[2] due: sorted set of "<kind> <tenant> <subject>" by time
  The arguments of the call are those that parts/perform-each.lua describes: settings, and items. Of an item ARGV has
  notAfterMs first,  ARGV[2] tenant  ARGV[3] runId  ARGV[4] credential's word or ""  ARGV[5] workflow  ARGV[6] revision or ""  ARGV[7] definition
  ARGV[8] actor  ARGV[9] key's digest, or "" without an idempotency key  ARGV[10] fingerprint  ARGV[11] the entry that starts the run, or ""
  ARGV[12] its gates, as parts/judge-gates.lua describes them, or ""  ARGV[13] its rates, ARGV[14] the budgets of its workflow, as
  parts/judge-rates.lua describes them, or ""
  from [15] on: the change, as parts/plan-change.lua describes it
  The reservation of a key is "pending <run> <fingerprint> <token>" or "bound <run> <fingerprint>[ <final status>]".
  Returns {"performed", now, answers}; an answer is
  {"admitted", now, status, active, limit, claims, keysKept, early[, woken, rateLeft]},
  {"queued", now, gate or rate, position, deadlineAtMs, keysKept, early, woken, rateLeft[, startsAtMs]}, {"replayed", now, "runId", id, "status", status} or {"too_late", now}, or an
  error code with its fields: {"idempotency_key_reused", now}, {"idempotency_key_in_flight", now}, {"tenant_stopped", now},
  {"unauthenticated", now}, {"version_conflict", now}, {"max_concurrent_runs_reached", now, "limit", n, "active", n[, "gate", id]}, {"queue_full", now, "limit", n[, "gate", id]},
  {"start_rate_exceeded", now, "rate", id, "retryAfterMs", ms}, {"budget_exhausted", now, "budget", id, "resetsAtMs", ms},
  {"quota_reached", now, "quota", "active_runs", "limit", n}, {"idempotency_quota_reached", now, "quota", n}
]]
--@include now
local start, dueKey = KEYS[1], KEYS[2]
--@include call-settings
--@include tenants
--@include use-limits
--@include add-later
--@include terminal
local runningKey, limits
--@include worker-word
--@include places
--@include use-gates

-- What a start is answered that waits: more may wait before it than it found, and some of them may leave.
local function queuedAnswer(known, run, keysKept, early, woken, ratesText)
  local left = {}
  if ratesText ~= "" then left = useLimits().left(known, ratesText) end
  if run.rate then
    local position = useLimits().positionOf(run, ratesText)
    return { "queued", now, run.rate, position, run.deadline, keysKept, early, woken, left, run.startsAt }
  end
  local gates, queues = useGates()
  local gate = gates.of(known, run.gates[run.held + 1].id)
  return { "queued", now, gate.id, queues.waitingAt(gate, run.level), run.deadline, keysKept, early, woken, left }
end

local function perform(ARGV)
  local tenant, runId, credential, workflow, revision = ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
  local definition, actor, digest, fingerprint, started, plan = ARGV[7], ARGV[8], ARGV[9], ARGV[10], ARGV[11], ARGV[12]
  local ratesText, budgetsText = ARGV[13], ARGV[14]
  limitsInUse = nil
  local at, retake = 15, nil
  local known = tenantOf(tenant)
  local settings, runKey = settingsOf(known), known.runPrefix .. runId
  local limit = settings.limit
  runningKey, limits, places.changes = known.runningKey, settings.limits, {}
  local run = redis.call("HMGET", runKey, "status", "buried", "gates", "place")
  local current = run[1] or run[2]
  known.active = known.active or redis.call("ZCARD", known.activeKey)
  if current then
    local waiting = run[3] and useGates().parse(runId, run[3], run[4])
    local kept = digest ~= "" and redis.call("ZCARD", known.keyedKey) or ""
    if waiting and useGates().isQueued(waiting) then return queuedAnswer(known, waiting, kept, "", {}, ratesText) end
    --@include granted-claims
    if ratesText == "" then return { "admitted", now, current, known.active, limit, granted, kept, "" } end
    return { "admitted", now, current, known.active, limit, granted, kept, "", {}, useLimits().left(known, ratesText) }
  end
  if credential ~= "" and string.find(settings.revoked, " " .. credential .. " ", 1, true) then
    return { "unauthenticated", now }
  end
  local reservationKey, held = digest ~= "" and known.reservationPrefix .. digest, false
  if reservationKey then
    held = redis.call("GET", reservationKey)
    if held then
      local state, owner, heldFor, last = string.match(held, "^(%a+) ([^ ]+) ([^ ]+) ?([^ ]*)$")
      if state == "bound" then
        if heldFor ~= fingerprint then return { "idempotency_key_reused", now } end
        local status = redis.call("HGET", known.runPrefix .. owner, "status")
        return { "replayed", now, "runId", owner, "status", status or (last ~= "" and last or "pending") }
      end
      -- A pending reservation lives only as long as its owner holds the admission lock.
      local lock = redis.call("GET", start .. "wf:run:admission:" .. tenant)
      if lock and string.match(lock, "^[^ ]+") == last and owner ~= runId then return { "idempotency_key_in_flight", now } end
    end
  end
  if settings.stopped then return { "tenant_stopped", now } end
  local pinned = workflow .. " " .. revision .. " " .. definition
  if revision ~= "" and not known.current[pinned] then
    local found = redis.call("HMGET", start .. "documents:" .. tenant .. ":workflow", "meta:" .. workflow, "body:" .. workflow)
    -- The revision alone does not say it: after a loss its number comes again, with another definition.
    if string.match(found[1] or "", "^[^ ]+") ~= revision or not string.find(found[2] or "", '"' .. definition .. '"', 1, true) then
      return { "version_conflict", now }
    end
    known.current[pinned] = true
  end
  local mayWait = started ~= ""
  --@include judge-rates
  if refused then return refused end
  --@include judge-gates
  if refused then return refused end
  local runQuota = tonumber(settings.activeMax) or activeMax
  if known.active + waitingInAll >= runQuota then return { "quota_reached", now, "quota", "active_runs", "limit", runQuota } end
  --@include insert-run
  local left = ratesText ~= "" and useLimits().left(known, ratesText) or nil
  if not entered then return { "admitted", now, status, active, limit, claims, keysKept, early, left and {}, left } end
  local woken = {}
  for _, id in ipairs(entered.woken) do
    if id ~= runId then woken[#woken + 1] = id end
  end
  if waitsAt or rated then
    -- What it has replaced may have left a place to it.
    local gates = useGates()
    local found = gates.read(known, runId)
    if gates.isQueued(found) then return queuedAnswer(known, found, keysKept, early, woken, ratesText) end
    status = found.status
  end
  return { "admitted", now, status, active, limit, claims, keysKept, early, woken, left }
end
--@include perform-each
writeLater()
return { "performed", now, answers }
