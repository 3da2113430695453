#!lua
--[[
  The end of both admit and createRun: makes room for the idempotency key, then writes the run with its first commit.
  Reads: at (index of the change, see plan-change), start, tenant, known (the tenant, see tenants), runId, runKey,
  reservationKey (false without a key), held (the reservation now, or false), digest, fingerprint,
  workflow, actor, definition, started (the entry that starts the run, or ""), dueKey, terminal, time, nowMs, now,
  retake (nil, or a list of commands that take the guard's lock again), what `call-settings` sets, what `tenants` sets,
  what `places` reads and sets, addLater (see `add-later`), what `judge-rates` and `judge-gates` set (they have not refused the run), useGates,
  what `use-limits` sets
  Sets: status, claims, active (as it is then), keysKept ("" without a key), early ("1" when a key gave way before its time),
  entered (what its places or its wait let others do, see `grants`, or nil)
]]
local version, reservation, reportedJob, decidedApproval, cancelling = 0, false, nil, nil, false
local checkedJob, checkedText = nil, nil
local parent, treeSize = false, false
local activeKey, eventsKey, keyedKey = known.activeKey, known.eventsKey, known.keyedKey
local fields = { "workflow", workflow, "definition", definition, "actor", actor, "admittedAt", now }
local writes, dueGone, dueAdded = retake or {}, {}, {}
-- Most admissions find the tenant's proof planned already.
readProof(known)
local evicted, oldest, early, keysKept = false, nil, "", ""
if reservationKey then
  known.keysKept = known.keysKept or redis.call("ZCARD", keyedKey)
  if known.keysKept >= keysMax and not held then
    local first = redis.call("ZRANGE", keyedKey, 0, 0, "WITHSCORES")
    if not first[1] or first[2] == "9007199254740991" then
      return { "idempotency_quota_reached", now, "quota", keysMax }
    end
    if not redis.call("ZSCORE", keyedKey, digest) then
      oldest = first[1]
      if tonumber(first[2]) >= nowMs then early = "1" end
      evicted = known.reservationPrefix .. oldest
      redis.call("GET", evicted) -- Refuses a key of another type while nothing is written yet.
    end
  end
end
local waits = waitsAt or rated
if waits then ARGV[at], ARGV[at + 1] = "queued", "goes" end
--@include judge-tree
--@include plan-change
local inboxKey = known.inboxPrefix .. runId
if started ~= "" then redis.call("LLEN", inboxKey) end
checkSet(known.runsKey)
local soon = nowMs + proveEveryMs
if reservationKey then
  reservation, boundKey, bound = digest, reservationKey, "bound " .. runId .. " " .. fingerprint
  if ends then bound = bound .. " " .. status end
  if ends and keepMs ~= "" then soon = math.min(soon, nowMs + keepMs + 1) end
  fields[#fields + 1] = "reservation"
  fields[#fields + 1] = digest
  fields[#fields + 1] = "fingerprint"
  fields[#fields + 1] = fingerprint
end

if startRates then
  local rates = useLimits()
  for _, terms in ipairs(startRates) do
    local rate = rates.of(known, terms.id)
    rates.put(rate, terms, rates.levelWith(terms, rates.levelOf(rate, terms), 1))
  end
end
if limitsInUse then limitsInUse.plan(known, writes) end
local entered = nil
if gated and not ends then
  local _, _, grants = useGates()
  entered = { woken = {}, freed = {} }
  if rated then grants.awaitRate(known, gated, rated.id, rated.startsAtMs) else grants.enter(known, gated, entered) end
end
if gated then
  fields[#fields + 1], fields[#fields + 2] = "gates", gated.text
  fields[#fields + 1], fields[#fields + 2] = "place", useGates().placeText(gated)
end
-- The row goes first: it is the only write that Redis can refuse, and before it nothing has happened. The stream counts.
redis.call("XADD", eventsKey, "MAXLEN", "~", eventsMax, "0-*",
  "at", now, "type", waits and "run_queued" or "run_admitted", "subject", runId, "actor", actor,
  "detail", rated and workflow .. " " .. rated.id or waitsAt and workflow .. " " .. waitsAt.id or workflow)
--@include add-tree-rows
if evicted then
  redis.call("DEL", evicted)
  known.keysKept = known.keysKept - redis.call("ZREM", keyedKey, oldest)
end
proofAt = soon
for index = 1, #dueAdded, 2 do addLater(dueKey, dueAdded[index], dueAdded[index + 1]) end
dueAdded = {}
--@include write-change
if reservationKey then keysKept = known.keysKept end
addLater(known.runsKey, "0", runId)
if not ends and not gated then
  addLater(activeKey, now, runId)
  known.active = known.active + 1
end
if entered then select(3, useGates()).handOn(known, entered) end
local active = known.active
if started ~= "" and not waits then
  redis.call("RPUSH", inboxKey, started)
  addLater(dueKey, attentionAt, "attention " .. tenant .. " " .. runId)
end
