#!lua
--[[
  The proof of a tenant: every place must belong to a live root run that holds it, every run must have the places that it
  holds and be where it waits, and its key must point to it. What is not so is repaired and reported, a hundred things a visit.
  The tenant's field proofAfter says where the next one goes on: "<score> <run>" among the slots, "queued <score> <run>" among
  those that wait, "held <gate> <score> <run>" among the places of the other gates.
  Reads: start, dueKey, now, nowMs, terminal, checkSet, readQueues, useGates, sweepEveryMs, proveEveryMs
  Sets: proveTenant (given a tenant, see `tenants`: repairs and runs, the runs that got a place, and how many things it has looked at)
]]
local provedMax = 100

-- Runs and their scores in turn, from the one after "<score> <run>" on; if that is gone by now, from its millisecond on.
local function membersAfter(key, after, room)
  local score, runId = string.match(after, "^([0-9]+) (.+)$")
  local first = 0
  if score then
    local rank = redis.call("ZRANK", key, runId)
    first = rank and rank + 1 or redis.call("ZCOUNT", key, "-inf", "(" .. score)
  end
  return redis.call("ZRANGE", key, first, first + room - 1, "WITHSCORES")
end

-- Behind the last of them, if there may be more.
local function endOf(members, room)
  if #members < 2 * room then return nil end
  return string.format("%.0f", members[#members]) .. " " .. members[#members - 1]
end

local function fieldsOf(known, runId)
  return redis.call("HMGET", known.runPrefix .. runId, "status", "reservation", "fingerprint", "parent", "gates", "place")
end

-- A run that cannot be read stays as it is and does not stop the proof of the others.
local function readRun(known, runId)
  local isReadable, read = pcall(fieldsOf, known, runId)
  if not isReadable then return nil end
  local run = read[5] and useGates().parse(runId, read[5], read[6] or "0") or { id = runId, gates = { { id = "tenant" } }, held = 1 }
  run.isLive = read[1] and not terminal[read[1]] and not read[4]
  run.reservation, run.fingerprint = read[2], read[3]
  return run
end

local function holds(run, id)
  for index = 1, run.isLive and run.held or 0 do
    if run.gates[index].id == id then return true end
  end
  return false
end

-- Its key, and its places besides the slot. Of two live runs that claim one key the second gets it, and the first at its next proof.
local function proveRun(known, run, found)
  local reservationKey = run.reservation and run.fingerprint and start .. "wf:run:idempotency:" .. known.id .. ":" .. run.reservation
  local bound = "bound " .. run.id .. " "
  if reservationKey and string.sub(redis.call("GET", reservationKey) or "", 1, #bound) ~= bound then
    redis.call("SET", reservationKey, bound .. run.fingerprint)
    redis.call("ZADD", known.keyedKey, "9007199254740991", run.reservation)
    found.repairs[#found.repairs + 1] = { "reservation_restored", run.id }
  end
  for index = 1, run.asked and run.held or 0 do
    local gates = useGates()
    local gate = gates.of(known, run.gates[index].id)
    if not gate.isTenants and not redis.call("ZSCORE", gate.placesKey, run.id) then
      gates.check(known, gate)
      gates.putPlace(known, run, gate, run.asked)
      found.repairs[#found.repairs + 1] = { "place_restored", run.id }
    end
  end
end

local function freeWrong(known, key, runId, id, found)
  redis.call("ZREM", key, runId)
  found.repairs[#found.repairs + 1] = { "slot_freed", runId }
  found.freed[#found.freed + 1] = id
end

local function proveSlots(known, after, room, found)
  local members = membersAfter(known.activeKey, after, room)
  for index = 1, #members, 2 do
    local run = readRun(known, members[index])
    if run and holds(run, "tenant") then pcall(proveRun, known, run, found)
    elseif run then freeWrong(known, known.activeKey, run.id, "tenant", found) end
  end
  return #members / 2, endOf(members, room)
end

local function proveWaiting(known, after, room, found)
  local members = membersAfter(known.queuedKey, after, room)
  for index = 1, #members, 2 do
    local run = readRun(known, members[index])
    if run and not useGates().isQueued(run) then
      redis.call("ZREM", known.queuedKey, run.id)
      readQueues(known)
      select(2, useGates()).close(known)
      found.repairs[#found.repairs + 1] = { "queue_left", run.id }
    elseif run then
      pcall(proveRun, known, run, found)
      local gates, queues = useGates()
      local gate = gates.of(known, run.gates[run.held + 1].id)
      gates.check(known, gate)
      if run.level and not queues.has(gate, run) then
        local level, since = run.level, run.since
        queues.leave(known, gate, run, false)
        queues.join(known, gate, run, level, since)
        redis.call("HSET", known.runPrefix .. run.id, "place", gates.placeText(run))
        found.repairs[#found.repairs + 1] = { "queue_restored", run.id }
      end
    end
  end
  return #members / 2, endOf(members, room)
end

local function proveHolders(known, after, room, found)
  local id, from = string.match(after, "^([^ ]*) ?(.*)$")
  local left = room
  while true do
    local members = id ~= "" and membersAfter(useGates().of(known, id).placesKey, from, left) or {}
    for index = 1, #members, 2 do
      local run = readRun(known, members[index])
      if run and not holds(run, id) then
        local gates = useGates()
        gates.freePlace(known, run, gates.of(known, id))
        found.repairs[#found.repairs + 1] = { "slot_freed", run.id }
        found.freed[#found.freed + 1] = id
      end
    end
    local last = endOf(members, left)
    if last then return room, id .. " " .. last end
    left = left - #members / 2
    id, from = redis.call("ZRANGE", known.heldGatesKey, "(" .. id, "+", "BYLEX", "LIMIT", "0", "1")[1], ""
    if not id then return room - left, nil end
  end
end

local stages = { { "", proveSlots }, { "queued ", proveWaiting }, { "held ", proveHolders } }

local function proveFrom(known, after, found)
  local first = 1
  for index, stage in ipairs(stages) do
    if string.sub(after, 1, #stage[1]) == stage[1] then first = index end
  end
  local from, room = string.sub(after, #stages[first][1] + 1), provedMax
  for index = first, #stages do
    local looked, last = stages[index][2](known, from, room, found)
    room = room - looked
    if last then return stages[index][1] .. last, provedMax - room end
    from = ""
  end
  return "", provedMax - room
end

-- Forgets keys that have expired: Redis has dropped their records by itself, or is about to. Gives when the next one does.
local function trimKeys(known)
  local keyed = known.keyedKey
  local expired = redis.call("ZRANGE", keyed, "-inf", "(" .. now, "BYSCORE", "LIMIT", "0", provedMax)
  if #expired > 0 then
    redis.call("ZREM", keyed, unpack(expired))
    for index, digest in ipairs(expired) do expired[index] = known.reservationPrefix .. digest end
    redis.call("UNLINK", unpack(expired))
  end
  local soonest = redis.call("ZRANGE", keyed, 0, 0, "WITHSCORES")
  local atMs = tonumber(soonest[2])
  return atMs and atMs < 9007199254740991 and atMs or nil
end

-- The types of the tenant's own keys are known before the first write: the reads that follow it cannot fail.
local function proveTenant(known)
  local after = redis.call("HGET", known.settingsKey, "proofAfter") or ""
  for _, key in ipairs({ known.activeKey, known.keyedKey, known.queuedKey, known.heldGatesKey, known.gateQueuesKey }) do checkSet(key) end
  local found = { repairs = {}, freed = {} }
  local nextAfter, looked = proveFrom(known, after, found)
  local nextKeyMs = trimKeys(known)
  -- A tenant of more than a hundred starts a minute would keep expired keys until its quota is full.
  local hasMoreExpired = nextKeyMs and nextKeyMs < nowMs
  local soonMs = nowMs + (hasMoreExpired and sweepEveryMs or proveEveryMs)
  local things = redis.call("ZCARD", known.activeKey) + redis.call("ZCARD", known.queuedKey) + redis.call("ZCARD", known.heldGatesKey)
  if things > 0 then
    redis.call("ZADD", dueKey, string.format("%.0f", soonMs), known.proof)
  else
    nextAfter = ""
    if nextKeyMs then redis.call("ZADD", dueKey, string.format("%.0f", math.max(soonMs, nextKeyMs + 1)), known.proof) end
  end
  if nextAfter ~= "" then
    redis.call("HSET", known.settingsKey, "proofAfter", nextAfter)
  elseif after ~= "" then
    redis.call("HDEL", known.settingsKey, "proofAfter")
  end
  if #found.freed == 0 then return found.repairs, {}, looked end
  readQueues(known)
  local moves = { woken = {}, freed = found.freed }
  select(3, useGates()).handOn(known, moves)
  return found.repairs, moves.woken, looked
end
