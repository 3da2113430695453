#!lua
--[[
  The gates of a tenant: their limits, and the runs that hold places in them. Below gate:<tenant>:<gate> there are
  places (sorted set of those runs, by when they were started; of the tenant's own gate it is active:<tenant>, by when they
  were admitted) and the keys of the queue (see `gate-queues`). held-gates:<tenant> is the sorted set of the other gates
  with places taken, gate-queues:<tenant> of the gates at which runs wait, both with score 0; queued:<tenant> of all runs
  that wait, by when they were started.
  Of a run that was started with a plan of its gates the field gates is "<priority> <fairness key> <weight> <agingMs>
  <askedAt> <deadlineAt> <actor's word>" and " <gate> <at limit>" of each; place is "<held>", behind it " <level> <arrival> <since>" while it
  waits for the next one, " rate <startsAt> <rate>" while it waits for its rate before the first one, and " because <reason>"
  when it has ended without having begun.
  Reads: start, settingsOf, checkSet
  Sets: gates (a table of functions: of a tenant and a gate's id; limitOf, activeIn, hasRoom and isOpen of a tenant and a gate;
  isWaitedAt of a tenant and a gate; isQueued of a run, whether it waits for a place or its rate; parse of a run's id and these two fields, and read of a tenant and a run's id, give the run;
  placeText of a run; putPlace and freePlace of a tenant, a run and a gate; check of a tenant and a gate, and checkLevel of
  a gate and a level, which ask for the types of their keys: after that these functions cannot fail)
]]
local gates = {}

function gates.of(known, id)
  local gate = known.gates[id]
  if not gate then
    local prefix = start .. "gate:" .. known.id .. ":" .. id
    gate = {
      id = id, isTenants = id == "tenant", placesKey = id == "tenant" and known.activeKey or prefix .. ":places",
      queueKey = prefix .. ":queue", keysPrefix = prefix .. ":keys:", linePrefix = prefix .. ":line:", runsPrefix = prefix .. ":runs:",
    }
    known.gates[id] = gate
  end
  return gate
end

local function numberAfter(text, name)
  local _, last = string.find(text, " " .. name .. "=", 1, true)
  return last and tonumber(string.match(text, "^[0-9]+", last + 1)) or false
end

local function readLimit(known, id)
  if id == "tenant" then return tonumber(settingsOf(known).limit) or false end
  local name = string.match(id, "^named%.(.*)$")
  if name then return numberAfter(settingsOf(known).gates, name) end
  local workflow, spec = string.match(id, "^by%-workflow%.(.*)$"), "-"
  if not workflow then workflow, spec = string.match(id, "^by%-key%.(.*)%.([^.]*)%.[^.]*$") end
  local documentsKey = start .. "documents:" .. known.id .. ":workflow"
  return numberAfter(redis.call("HGET", documentsKey, "limits:" .. workflow) or "", spec)
end

-- A number, or false when the gate lets everybody through.
function gates.limitOf(known, gate)
  if gate.limit == nil then gate.limit = readLimit(known, gate.id) end
  return gate.limit
end

-- Those admitted by this call are added to the tenant's own set at its end, and counted until then.
function gates.activeIn(known, gate)
  return gate.isTenants and known.active or redis.call("ZCARD", gate.placesKey)
end

function gates.hasRoom(known, gate)
  local limit = gates.limitOf(known, gate)
  return not limit or gates.activeIn(known, gate) < limit
end

function gates.isWaitedAt(known, gate)
  return known.queues and redis.call("HLEN", gate.queueKey) > 0
end

-- There is a free place, and nobody waits for it. A gate without a limit is open also while those who wait there go on.
function gates.isOpen(known, gate)
  return not gates.limitOf(known, gate) or gates.hasRoom(known, gate) and not gates.isWaitedAt(known, gate)
end

function gates.parse(runId, text, place)
  local run = { id = runId, gates = {} }
  local priority, fairness, weight, agingMs, asked, deadline, actor, rest =
    string.match(text, "^" .. string.rep("([^ ]+) ", 6) .. "([^ ]+)(.*)$")
  run.priority, run.fairness, run.weight, run.agingMs = tonumber(priority), fairness, tonumber(weight), tonumber(agingMs)
  run.asked, run.deadline, run.actorWord = asked, deadline, actor
  for id, atLimit in string.gmatch(rest, " ([^ ]+) ([^ ]+)") do
    run.gates[#run.gates + 1] = { id = id, atLimit = atLimit }
  end
  local held, level, arrival, since = string.match(place, "^([0-9]+) ?([0-9]*) ?([0-9]*) ?([0-9]*)")
  run.held, run.level, run.arrival, run.since = tonumber(held), tonumber(level), tonumber(arrival), tonumber(since)
  local startsAt, rate = string.match(place, "^0 rate ([0-9]+) ([^ ]+)")
  run.startsAt, run.rate = tonumber(startsAt), rate
  return run
end

function gates.isQueued(run)
  return run.level and true or run.rate and true or false
end

-- Nil for a run that was started without a plan, and for one that is gone.
function gates.read(known, runId)
  local runKey = known.runPrefix .. runId
  local read = redis.call("HMGET", runKey, "gates", "place", "status", "version", "actor", "workflow", "reservation", "cancel")
  if not read[1] or not read[3] then return nil end
  local run = gates.parse(runId, read[1], read[2])
  run.status, run.version, run.actor, run.workflow = read[3], tonumber(read[4]), read[5], read[6]
  run.reservation, run.cancel = read[7], read[8]
  return run
end

function gates.placeText(run)
  if run.rate then return string.format("0 rate %.0f ", run.startsAt) .. run.rate end
  if not run.level then return string.format("%.0f", run.held) end
  return string.format("%.0f %.0f %.0f %.0f", run.held, run.level, run.arrival, run.since)
end

function gates.putPlace(known, run, gate, at)
  redis.call("ZADD", gate.placesKey, at, run.id)
  if not gate.isTenants then
    redis.call("ZADD", known.heldGatesKey, 0, gate.id)
  elseif known.active then
    known.active = known.active + 1
  end
end

function gates.freePlace(known, run, gate)
  redis.call("ZREM", gate.placesKey, run.id)
  if not gate.isTenants and redis.call("ZCARD", gate.placesKey) == 0 then redis.call("ZREM", known.heldGatesKey, gate.id) end
end

function gates.checkLevel(gate, level)
  redis.call("HLEN", gate.keysPrefix .. level)
  redis.call("ZCARD", gate.linePrefix .. level)
  redis.call("ZCARD", gate.runsPrefix .. level)
end

function gates.check(known, gate)
  if gate.isChecked then return end
  gates.limitOf(known, gate)
  for _, key in ipairs({ gate.placesKey, known.heldGatesKey, known.gateQueuesKey, known.queuedKey }) do checkSet(key) end
  local numbers = redis.call("HGETALL", gate.queueKey)
  for index = 1, #numbers, 2 do
    local level = string.match(numbers[index], "^virtual:(.*)$")
    if level then
      gates.checkLevel(gate, level)
    end
  end
  gate.isChecked = true
end
