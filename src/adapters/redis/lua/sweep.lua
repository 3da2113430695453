#!lua flags=allow-oom
--[[
  Handles what is due in one partition, at most 100 things, and says what a process must do next. While more is due, the
  tenants among the first 100 and the next 1,000 to look at take turns. Writes nothing when nothing is due. Each thing is a transition of its own: its handler reads everything first, so that one which meets a
  key of a wrong type has written nothing. Such a thing is put off by attentionMs and does not stop the others. What
  would take too long stays due: a removal or a proof may cost as much as ten other things.
  KEYS[1] what every key of the partition begins with: tenants and runs are only known here
  KEYS[2] due: sorted set of "<kind> <tenant> <subject>" by the time at which the sweep handles it
  KEYS[3] swept: when the sweep last handled something; while more was due, " <time> <thing>" up to which it has looked
  After notAfterMs the settings, as parts/call-settings.lua describes them
  ARGV[18] sweepEveryMs  ARGV[19] republishAfterMs, the first time  ARGV[20] republishAfterMaxMs
  Returns {"swept", now, lostClaims, waiting, unclaimed, repairs, gates, queueDeadlines}, {"not_due", now, "againInMs", ms} or
  {"too_late", now}; waiting holds {tenant, run} of each, unclaimed {tenant, job id, job's text}, repairs {tenant, repair, run},
  gates {tenant, gate}
]]
--@include clock

local start, dueKey = KEYS[1], KEYS[2]
--@include call-settings
local sweepEveryMs, republishFirstMs, republishMaxMs = ARGV[18], ARGV[19], ARGV[20]
--@include tenants
--@include use-limits
--@include use-gates
-- `work` counts calls to Redis, as far as they differ: 1,200 take 1.5 to 2 ms.
local found = { waiting = {}, places = {}, unclaimed = {}, repairs = {}, gates = {}, named = {}, lostClaims = 0, queueDeadlines = 0, work = 0 }
local workMax = 1200

--@include terminal
--@include encode-name
--@include remove-run
local function runIdOf(jobId)
  return string.match(jobId, "^[^:]*")
end

local function inMs(afterMs)
  return string.format("%.0f", nowMs + afterMs)
end

-- Names a run that waits and has no owner. One run is named once, where it came up first.
local function nameWaiting(tenant, runId)
  local place = found.places[runId] or #found.waiting + 1
  found.places[runId] = place
  found.waiting[place] = { tenant, runId }
end

local function visitRun(tenant, runId)
  local name = tenant .. ":" .. runId
  local status = redis.call("HGET", start .. "run:" .. name, "status")
  local waiting = redis.call("LLEN", start .. "inbox:" .. name)
  local lock = redis.call("GET", start .. "wf:run:lock:" .. name)
  if not status or waiting == 0 then return end
  redis.call("ZADD", dueKey, inMs(attentionMs), "attention " .. tenant .. " " .. runId)
  if not lock then nameWaiting(tenant, runId) end
end

-- Whether and how an entry reaches its run. Ended runs take none; an owner will see the entry when it commits.
local function wayTo(tenant, runId)
  local name = tenant .. ":" .. runId
  local status = redis.call("HGET", start .. "run:" .. name, "status")
  redis.call("LLEN", start .. "inbox:" .. name)
  local lock = redis.call("GET", start .. "wf:run:lock:" .. name)
  local open = status and not terminal[status]
  return { tenant = tenant, runId = runId, open = open, inboxKey = start .. "inbox:" .. name, free = not lock }
end

local function bring(way, entry)
  if not way.open then return end
  redis.call("RPUSH", way.inboxKey, entry)
  redis.call("ZADD", dueKey, "NX", inMs(attentionMs), "attention " .. way.tenant .. " " .. way.runId)
  if way.free then nameWaiting(way.tenant, way.runId) end
end

local function loseClaim(tenant, jobId)
  local runId = runIdOf(jobId)
  local runKey = start .. "run:" .. tenant .. ":" .. runId
  local text = redis.call("HGET", runKey, "job:" .. jobId)
  local rest, word, expiresAt =
    string.match(text or "", "^claimed( [^ ]+ [^ ]+ ([^ ]+) [^ ]+ [^ ]+ ([^ ]+) .*)$")
  if not rest or tonumber(expiresAt) > nowMs then return end
  local way = wayTo(tenant, runId)
  local worker, pool, mark = readWorker(word)
  local runningKey = start .. "running:" .. tenant
  if pool then redis.call("ZCARD", runningKey) end
  local charge = mark and redis.call("HGET", runKey, "charge:" .. jobId)
  if charge then
    local known, _, _, meters = tenantOf(tenant), useLimits()
    local commands = { { "HSET", runKey, "charge:" .. jobId, meters.settle(known, meters.parse(charge), "gone", {}) } }
    limitsInUse.plan(known, commands)
    limitsInUse.tell(known)
    for _, command in ipairs(commands) do redis.call(unpack(command)) end
  end
  if pool then
    local topic = string.match(rest, "^" .. string.rep(" [^ ]+", 9) .. " ([^ ]+)")
    redis.call("ZREM", runningKey, "t:" .. topic .. " " .. jobId, "p:" .. pool .. " " .. jobId)
  end
  redis.call("HSET", runKey, "job:" .. jobId, "lost" .. rest)
  found.lostClaims = found.lostClaims + 1
  local id = "lost:" .. jobId
  bring(way, 'claim_lost {"kind":"claim_lost","entryId":"' .. id .. '","jobId":"' .. jobId .. '","worker":'
    .. string.gsub(worker, "\1", " ") .. "}\n" .. id)
end

-- A timer is its place among what is due: the sweep has just taken it from there.
local function fireTimer(tenant, subject)
  local runId, timerId = string.match(subject, "^([^ ]+) (.*)$")
  local id = "timer:" .. timerId
  bring(wayTo(tenant, runId),
    'timer {"kind":"timer","entryId":"' .. id .. '","timerId":"' .. timerId .. '"}\n' .. id)
end

local function publishAgain(tenant, jobId)
  local runKey = start .. "run:" .. tenant .. ":" .. runIdOf(jobId)
  local text = redis.call("HGET", runKey, "job:" .. jobId)
  local state, republished, rest = string.match(text or "", "^(%a+) ([0-9]+)( .*)$")
  if state ~= "ready" and state ~= "held" then return end
  republished = republished + 1
  local waitMs = math.min(republishMaxMs, republishFirstMs * 2 ^ republished)
  redis.call("HSET", runKey, "job:" .. jobId, state .. " " .. string.format("%.0f", republished) .. rest)
  redis.call("ZADD", dueKey, inMs(waitMs), "unclaimed " .. tenant .. " " .. jobId)
  found.unclaimed[#found.unclaimed + 1] = { tenant, jobId, text }
end

local function removeEnded(tenant, runId)
  if not redis.call("HGET", start .. "run:" .. tenant .. ":" .. runId, "status") then return end
  local plan = planRemoval(tenant, runId)
  found.work = found.work + plan.work
  if limitsInUse then limitsInUse.tell(tenantOf(tenant)) end
  removePlanned(plan)
  if plan.more then redis.call("ZADD", dueKey, now, "retention " .. tenant .. " " .. runId) end
end
local function removeExpiredLetter(tenant, id)
  local documents = start .. "documents:" .. tenant .. ":deadLetter"
  local ids = start .. "document-ids:" .. tenant .. ":deadLetter"
  local savedAt = string.match(redis.call("HGET", documents, "meta:" .. id) or "", "^[0-9]+ ([0-9]+)")
  redis.call("ZCARD", ids)
  if not savedAt or savedAt + letterMs > nowMs then return end
  redis.call("HDEL", documents, "meta:" .. id, "body:" .. id)
  redis.call("ZREM", ids, id)
end

--@include prove-tenant
--@include lock-names
-- How long grants are remembered, and a millisecond.
local visitAfterMs = 600001
local function visitLock(tenant, listed)
  local lockKey = keysOfLock(tenant, listed)
  if redis.call("GET", lockKey) then
    local visitAt = string.format("%.0f", nowMs + redis.call("PTTL", lockKey) + visitAfterMs)
    redis.call("ZADD", dueKey, visitAt, "lock " .. tenant .. " " .. listed)
  else
    redis.call("ZREM", start .. "locks:" .. tenant, listed)
    redis.call("ZREM", start .. "held:" .. tenant, listed)
  end
end
local function prove(tenant)
  local known = tenantOf(tenant)
  local repairs, woken, looked = proveTenant(known)
  known.proofAt = nil
  for _, repair in ipairs(repairs) do found.repairs[#found.repairs + 1] = { tenant, repair[1], repair[2] } end
  for _, id in ipairs(woken) do nameWaiting(tenant, id) end
  found.work = found.work + 2 * looked + 30 * #woken
end

-- A run that has waited for as long as it may.
local function endWaiting(tenant, runId)
  local known, gates, _, grants = tenantOf(tenant), useGates()
  local run = gates.read(known, runId)
  if not run or not gates.isQueued(run) or tonumber(run.deadline) > nowMs then return end
  readQueues(known)
  settingsOf(known)
  grants.check(known, grants.heldBy(run))
  local moves, reason = { woken = {}, freed = {} }, "queue_deadline_passed"
  local timeline = '[{"type":"run_timed_out","reason":"' .. reason .. '"}]'
  grants.endQueued(known, run, moves, { status = "timed_out", reason = reason, timeline = timeline })
  found.queueDeadlines = found.queueDeadlines + 1
  grants.handOn(known, moves)
  for _, id in ipairs(moves.woken) do nameWaiting(tenant, id) end
  found.work = found.work + 20 + 30 * #moves.woken
end

-- Its rate lets it through: it goes on to its gates. While its tenant is stopped, nothing begins.
local function beginRated(tenant, runId)
  local known, gates, _, grants = tenantOf(tenant), useGates()
  local run = gates.read(known, runId)
  if not run or not run.rate or run.startsAt > nowMs then return end
  readQueues(known)
  if settingsOf(known).stopped then
    redis.call("ZADD", dueKey, attentionAt, "rated " .. tenant .. " " .. runId)
    return
  end
  local moves = { woken = {}, freed = {} }
  grants.beginAfterRate(known, run, moves)
  grants.handOn(known, moves)
  for _, id in ipairs(moves.woken) do nameWaiting(tenant, id) end
  found.work = found.work + 20 + 30 * #moves.woken
end

-- The process that sweeps hands on what is free there.
local function visitGate(tenant, id)
  local known, gates, _, grants = tenantOf(tenant), useGates()
  readQueues(known)
  if not grants.hasWork(known, gates.of(known, id)) then
    redis.call("ZREM", dueKey, "gate " .. tenant .. " " .. id)
    return
  end
  redis.call("ZADD", dueKey, attentionAt, "gate " .. tenant .. " " .. id)
  if found.named[tenant .. " " .. id] then return end
  found.named[tenant .. " " .. id] = true
  found.gates[#found.gates + 1] = { tenant, id }
end

local gatesMax = 100

-- As long as runs of the tenant wait, the visit stays among what is due, for the time at which it is asked for.
local function visitGates(tenant, after)
  local known, _, queues = tenantOf(tenant), useGates()
  local ids = redis.call("ZRANGE", known.gateQueuesKey, "(" .. after, "+", "BYLEX", "LIMIT", "0", string.format("%.0f", gatesMax))
  local anyWaits = redis.call("ZCARD", known.gateQueuesKey) + redis.call("ZCARD", known.queuedKey) > 0
  if after == "" and anyWaits then redis.call("ZADD", dueKey, queues.never, known.visit) end
  for _, id in ipairs(ids) do visitGate(tenant, id) end
  if #ids == gatesMax then redis.call("ZADD", dueKey, now, known.visit .. ids[gatesMax]) end
  found.work = found.work + 6 * #ids
end

--@include visit-lines
local function removeLedger(tenant, ledger)
  redis.call("ZCARD", start .. "ledger-ids:" .. tenant) -- Refuses a key of another type while nothing is written yet.
  redis.call("HDEL", start .. "ledgers:" .. tenant, ledger)
  redis.call("ZREM", start .. "ledger-ids:" .. tenant, ledger)
end

local handlers = {
  attention = visitRun,
  claim = loseClaim,
  timer = fireTimer,
  unclaimed = publishAgain,
  retention = removeEnded,
  letter = removeExpiredLetter,
  proof = prove,
  lock = visitLock,
  gate = visitGate,
  gates = visitGates,
  queued = endWaiting,
  rated = beginRated,
  budget = visitLine,
  budgets = visitLines,
  ledger = removeLedger,
}

-- A kind that only a newer version knows is put off like a thing that cannot be read.
local function handle(member)
  local kind, tenant, subject = string.match(member, "^([^ ]+) ([^ ]+) (.*)$")
  found.work = found.work + 8
  redis.call("ZREM", dueKey, member)
  limitsInUse = nil
  if not pcall(handlers[kind], tenant, subject) then
    redis.call("ZADD", dueKey, string.format("%.0f", nowMs + attentionMs), member)
  end
end

local lookedAtMax = 1000

-- More is due than one round takes: the tenants take turns, each with what is due longest. Gives the round, and up to where
-- it has looked.
local function shareRound(front, lookedAtMs, lookedAt)
  local first = #front
  if lookedAt ~= "" then
    local rank = redis.call("ZRANK", dueKey, lookedAt)
    first = math.max(first, rank and rank + 1 or redis.call("ZCOUNT", dueKey, "-inf", "(" .. lookedAtMs))
  end
  local further = redis.call("ZRANGE", dueKey, first, first + lookedAtMax - 1, "WITHSCORES")
  local tenants, byTenant, looked = {}, {}, 0
  local function add(member)
    local tenant = string.match(member, "^[^ ]+ ([^ ]+)")
    if not byTenant[tenant] then
      byTenant[tenant] = {}
      tenants[#tenants + 1] = tenant
    end
    local own = byTenant[tenant]
    own[#own + 1] = member
  end
  for _, member in ipairs(front) do add(member) end
  for index = 1, #further, 2 do
    if tonumber(further[index + 1]) > nowMs then break end
    add(further[index])
    looked = looked + 1
  end
  local round, turn = {}, 1
  while #round < #front do
    for _, tenant in ipairs(tenants) do
      if #round < #front then round[#round + 1] = byTenant[tenant][turn] end
    end
    turn = turn + 1
  end
  if looked < lookedAtMax then return round, "" end
  return round, " " .. string.format("%.0f", further[2 * looked]) .. " " .. further[2 * looked - 1]
end

local due = redis.call("ZRANGE", dueKey, "-inf", now, "BYSCORE", "LIMIT", "0", "100")
if #due > 0 then
  local swept, lookedAtMs, lookedAt = string.match(redis.call("GET", KEYS[3]) or "", "^([0-9]+) ?([0-9]*) ?(.*)$")
  local againInMs = swept and swept + sweepEveryMs - nowMs or 0
  if againInMs > 0 then return { "not_due", now, "againInMs", againInMs } end
  local lookedUpTo = ""
  if #due == 100 then due, lookedUpTo = shareRound(due, lookedAtMs, lookedAt or "") end
  redis.call("SET", KEYS[3], now .. lookedUpTo)
  for _, member in ipairs(due) do
    handle(member)
    if found.work > workMax then break end
  end
end
return { "swept", now, found.lostClaims, found.waiting, found.unclaimed, found.repairs,
  found.gates, found.queueDeadlines }
