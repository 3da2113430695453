#!lua
--[[
  How runs pass their gates: what a start takes or waits for, and how a place that becomes free is handed on at once. These
  functions read and write in turns: what is read after the first write cannot fail, since `check` has asked for the types of
  the keys with which handing on begins; what goes wrong further on keeps nobody from what has happened, and is tried again
  later. `moves` is a table of two lists: woken, the runs whose inboxes have something, and freed, the gates where a place may be free.
  Reads: start, dueKey, now, nowMs, attentionAt, retentionAt, timelineRowsMax, keepMs, proveEveryMs, eventsMax, trailMax, gates,
  queues, settingsOf, checkSet, writeProof
  Sets: grants (a table of functions: heldBy of a run, the ids of the gates in which it holds places; enter of a tenant, a new
  run and moves; leave of a tenant and a run, which holds nothing and waits nowhere then; endQueued of a tenant, a run that
  waits, moves and its end, a table of status, reason, timeline and before, which writes what else there is to write; awaitRate of a
  tenant, a new run, a rate's id and when it goes on; beginAfterRate of a tenant, a run and moves; hasWork
  of a tenant and a gate; check of a tenant and gates' ids; handOn of a tenant and moves, which gives the ids of the gates that are left)
]]
local grants, movesMax, membersMax = {}, 8, 100

local function addEvent(known, type, run, detail)
  redis.call("XADD", known.eventsKey, "MAXLEN", "~", eventsMax, "0-*",
    "at", now, "type", type, "subject", run.id, "actor", type == "run_ended" and "engine" or run.actor, "detail", detail)
end

function grants.heldBy(run)
  local held = {}
  for index = 1, run.held do held[index] = run.gates[index].id end
  return held
end

local function takePlace(known, run, gate)
  run.held = run.held + 1
  gates.putPlace(known, run, gate, gate.isTenants and now or run.asked)
end

-- The run waits, for a place or its rate: it counts among those of its tenant, and not for ever.
local function beginWait(known, run)
  redis.call("ZADD", known.queuedKey, run.asked, run.id)
  redis.call("ZADD", dueKey, run.deadline, "queued " .. known.id .. " " .. run.id)
end

local function endWait(known, run)
  redis.call("ZREM", known.queuedKey, run.id)
  redis.call("ZREM", dueKey, "queued " .. known.id .. " " .. run.id)
end

local function ratedOf(known, run)
  return "rated " .. known.id .. " " .. run.id
end

-- By then it has left those that wait.
local function leaveRate(known, run)
  redis.call("ZREM", dueKey, ratedOf(known, run))
  run.rate, run.startsAt = nil, nil
  queues.close(known)
end

function grants.awaitRate(known, run, rateId, startsAtMs)
  redis.call("XRANGE", known.eventsKey, "-", "+", "COUNT", 1) -- Refuses a key of another type while nothing is written yet.
  run.rate, run.startsAt = rateId, startsAtMs
  beginWait(known, run)
  redis.call("ZADD", dueKey, string.format("%.0f", startsAtMs), ratedOf(known, run))
  queues.open(known)
end

-- Frees what it holds, and takes it out of the queue in which it waits.
function grants.leave(known, run)
  local held = grants.heldBy(run)
  for _, id in ipairs(held) do gates.freePlace(known, run, gates.of(known, id)) end
  if gates.isQueued(run) then endWait(known, run) end
  if run.level then queues.leave(known, gates.of(known, run.gates[run.held + 1].id), run, false) end
  if run.rate then leaveRate(known, run) end
  run.held = 0
  return held
end

-- It has no steps, jobs or children. The caller hands its places on.
function grants.endQueued(known, run, moves, ending)
  local inboxKey, reservationKey = known.inboxPrefix .. run.id, run.reservation and known.reservationPrefix .. run.reservation
  redis.call("LLEN", inboxKey) -- Refuses a key of another type while nothing is written yet, as all these reads do.
  checkSet(known.keyedKey)
  local owner, fingerprint = string.match(reservationKey and redis.call("GET", reservationKey) or "", "^bound ([^ ]+) ([^ ]+)")
  for index = 1, run.held + 1 do gates.check(known, gates.of(known, run.gates[index].id)) end
  if ending.before then ending.before() end
  addEvent(known, "run_ended", run, ending.status .. " " .. ending.reason)
  for _, id in ipairs(grants.leave(known, run)) do moves.freed[#moves.freed + 1] = id end
  run.status, run.version = ending.status, run.version + 1
  local version, dropped = string.format("%.0f", run.version), run.version - timelineRowsMax
  redis.call("HSET", known.runPrefix .. run.id, "status", run.status, "version", version, "updatedAt", now, "endedAt", now,
    "drains", "0", "place", "0 because " .. ending.reason, "row:" .. version, '"' .. run.id .. ':unbegun" ' .. now .. " " .. ending.timeline)
  if dropped > 0 then redis.call("HDEL", known.runPrefix .. run.id, "row:" .. string.format("%.0f", dropped)) end
  redis.call("DEL", inboxKey)
  redis.call("ZREM", dueKey, "attention " .. known.id .. " " .. run.id)
  redis.call("ZADD", dueKey, retentionAt, "retention " .. known.id .. " " .. run.id)
  if owner ~= run.id then return end
  local bound = "bound " .. run.id .. " " .. fingerprint .. " " .. run.status
  if keepMs == "" then
    redis.call("SET", reservationKey, bound)
    redis.call("ZADD", known.keyedKey, "9007199254740991", run.reservation)
    writeProof(known, nowMs + proveEveryMs)
  else
    redis.call("SET", reservationKey, bound, "PX", keepMs)
    redis.call("ZADD", known.keyedKey, string.format("%.0f", nowMs + keepMs), run.reservation)
    writeProof(known, nowMs + keepMs + 1)
  end
end

-- `before` is what else is written, once everything was read.
local function supersede(known, run, by, moves, before)
  local reason = "superseded_by " .. by.id
  local timeline = '[{"type":"run_cancelled","reason":"' .. reason .. '"}]'
  grants.endQueued(known, run, moves, { status = "cancelled", reason = reason, timeline = timeline, before = before })
end

-- One that is being cancelled already is enough.
local function cancelOldest(known, run, gate, moves)
  local oldest
  for _, id in ipairs(not gate.isTenants and redis.call("ZRANGE", gate.placesKey, 0, membersMax - 1) or {}) do
    local member = gates.read(known, id)
    if member and member.cancel then return end
    oldest = oldest or member
  end
  if not oldest then return end
  local reason, entryId = "superseded_by " .. run.id, "superseded:" .. run.id
  local eventsKey, trailKey, inboxKey = known.eventsKey, start .. "trail:" .. known.id, known.inboxPrefix .. oldest.id
  --@include add-audited
  local function ask()
    addAudited("cancel_requested", oldest.id, run.actor, reason)
    redis.call("HSET", known.runPrefix .. oldest.id, "cancel", entryId)
  end
  if oldest.level then return supersede(known, oldest, run, moves, ask) end
  redis.call("LLEN", inboxKey) -- Refuses a key of another type while nothing is written yet.
  ask()
  local actor = string.gsub(run.actorWord, "\1", " ")
  redis.call("RPUSH", inboxKey, 'cancel {"kind":"cancel","entryId":"' .. entryId .. '","actor":' .. actor
    .. ',"reason":"' .. reason .. '"}\n' .. entryId)
  redis.call("ZADD", dueKey, "NX", attentionAt, "attention " .. known.id .. " " .. oldest.id)
  moves.woken[#moves.woken + 1] = oldest.id
end

-- Somebody more urgent may wait for a place that the run holds; an operator's moves are not counted.
local function inheritedLevel(known, run)
  local best = run.priority
  for _, id in ipairs(grants.heldBy(run)) do
    for _, level in ipairs((queues.levelsOf(gates.of(known, id)))) do
      if level < 10 then best = math.max(best, level) end
    end
  end
  return best
end

-- With the two that keep only the newest one run waits at the most; more do only if the workflow said something else before.
local function waitAt(known, run, gate, moves)
  local atLimit = run.gates[run.held + 1].atLimit
  local onlyNewest = atLimit == "cancel_in_progress" or atLimit == "replace_queued"
  local waiting = onlyNewest and gates.isWaitedAt(known, gate) and queues.orderOf(known, gate, movesMax) or {}
  for _, other in ipairs(waiting) do
    -- A run that was handed on from gate to gate may come to one at which a younger one waits.
    if tonumber(other.asked) > tonumber(run.asked) then
      return supersede(known, run, other, moves)
    end
  end
  for _, other in ipairs(waiting) do supersede(known, other, run, moves) end
  queues.join(known, gate, run, onlyNewest and 10 or inheritedLevel(known, run), nowMs)
  beginWait(known, run)
  if atLimit == "cancel_in_progress" then cancelOldest(known, run, gate, moves) end
end

-- Takes places from the next gate on; where there is none, or somebody waits, the run waits as well.
function grants.enter(known, run, moves)
  for index = run.held + 1, #run.gates do
    local gate = gates.of(known, run.gates[index].id)
    if not gates.isOpen(known, gate) then return waitAt(known, run, gate, moves) end
    takePlace(known, run, gate)
  end
end

-- Takes what places it can, and begins if it gets all of them.
local function goOn(known, run, moves)
  local inboxKey = known.inboxPrefix .. run.id
  grants.enter(known, run, moves)
  if run.status == "cancelled" then return end
  if run.level then
    redis.call("HSET", known.runPrefix .. run.id, "place", gates.placeText(run))
    addEvent(known, "run_queued", run, run.workflow .. " " .. run.gates[run.held + 1].id)
    return
  end
  redis.call("HSET", known.runPrefix .. run.id, "place", gates.placeText(run), "status", "pending", "updatedAt", now, "admittedAt", now)
  redis.call("RPUSH", inboxKey, 'started {"kind":"started","entryId":"' .. run.id .. '"}\n' .. run.id)
  redis.call("ZADD", dueKey, "NX", attentionAt, "attention " .. known.id .. " " .. run.id)
  addEvent(known, "run_admitted", run, run.workflow)
  moves.woken[#moves.woken + 1] = run.id
end

local function checkBefore(known, run)
  redis.call("LLEN", known.inboxPrefix .. run.id) -- Refuses a key of another type while nothing is written yet.
  for index = run.held + 1, #run.gates do gates.check(known, gates.of(known, run.gates[index].id)) end
end

-- The head of the queue gets the place and goes on; the last place that it gets lets it begin.
local function grant(known, gate, moves)
  local run = queues.headOf(known, gate)
  if not run then return false end
  checkBefore(known, run)
  endWait(known, run)
  queues.leave(known, gate, run, true)
  takePlace(known, run, gate)
  goOn(known, run, moves)
  return true
end

-- Its rate has let it through: it goes on to its gates.
function grants.beginAfterRate(known, run, moves)
  redis.call("XRANGE", known.eventsKey, "-", "+", "COUNT", 1) -- As `checkBefore` does for other keys.
  checkBefore(known, run)
  endWait(known, run)
  leaveRate(known, run)
  goOn(known, run, moves)
end

function grants.hasWork(known, gate)
  return not settingsOf(known).stopped and gates.isWaitedAt(known, gate) and gates.hasRoom(known, gate)
end

function grants.check(known, ids)
  settingsOf(known)
  for _, id in ipairs(ids) do
    local gate = gates.of(known, id)
    gates.check(known, gate)
    local head = gates.isWaitedAt(known, gate) and queues.orderOf(known, gate, 1)[1]
    if head then
      redis.call("LLEN", known.inboxPrefix .. head.id)
      for index = head.held + 1, #head.gates do gates.check(known, gates.of(known, head.gates[index].id)) end
    end
  end
end

-- At most so many runs are granted a place; the sweep finds a gate that is left at once, and the caller may go on there.
function grants.handOn(known, moves)
  local left, granted = {}, 0
  while known.queues and #moves.freed > 0 do
    local gate = gates.of(known, table.remove(moves.freed, 1))
    local due = "gate " .. known.id .. " " .. gate.id
    local isWell, goesOn = true, true
    while isWell and goesOn and granted < movesMax and grants.hasWork(known, gate) do
      granted = granted + 1
      isWell, goesOn = pcall(grant, known, gate, moves)
    end
    if not isWell then redis.call("ZADD", dueKey, attentionAt, due)
    elseif grants.hasWork(known, gate) then left[#left + 1] = gate.id
    else redis.call("ZREM", dueKey, due) end
  end
  for _, id in ipairs(left) do redis.call("ZADD", dueKey, "NX", now, "gate " .. known.id .. " " .. id) end
  return left
end
