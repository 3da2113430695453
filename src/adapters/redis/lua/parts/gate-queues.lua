#!lua
--[[
  The queues of gates: runs wait by level, then by the tag of their fairness key, then in the order in which they came. Below
  gate:<tenant>:<gate> there are queue (hash of arrivals, and virtual:<level> of each level at which runs wait), and of each
  such level keys:<level> (hash of "<tag> <arrival>" by fairness key; at the head level, 10, each run is a key of its own),
  line:<level> (sorted set of "<arrival, 16 digits> <key>" by tag) and runs:<level> (sorted set of "<key> <arrival, 16 digits>
  <run>" with score 0). While runs of a tenant wait, its field queues is "true" and the visit of its gates is among what is due.
  Reads: dueKey, nowMs, settingsOf, gates
  Sets: queues (a table of functions: levelsOf of a gate, the highest first, and with them their virtual times; waitingAt
  of a gate and the level from which on it counts; join of a tenant, a gate, a run, a level and since when its age counts;
  leave of a tenant, a gate, a run and whether it got a place; open of a tenant of which a run waits from now on, and close of
  one of which perhaps none does; has of a gate and a run; headOf of a tenant and a gate: the run that is granted next, or nil; orderOf of a tenant, a gate
  and a limit: those that wait, in the order in which they would be granted now; never, the time of a visit that nobody has asked for)
]]
local queues, headLevel, virtualUnit = { never = "9007199254740991" }, 10, 7207200

local function asText(number)
  return string.format("%.0f", number)
end

local function keyOf(run, level)
  return level == headLevel and run.id or run.fairness
end

function queues.levelsOf(gate)
  local numbers, levels, virtuals = redis.call("HGETALL", gate.queueKey), {}, {}
  for index = 1, #numbers, 2 do
    local level = tonumber(string.match(numbers[index], "^virtual:(.*)$"))
    if level then
      levels[#levels + 1] = level
      virtuals[level] = tonumber(numbers[index + 1])
    end
  end
  table.sort(levels, function(one, other) return one > other end)
  return levels, virtuals
end

function queues.waitingAt(gate, fromLevel)
  local waiting = 0
  for _, level in ipairs((queues.levelsOf(gate))) do
    if level >= fromLevel then waiting = waiting + redis.call("ZCARD", gate.runsPrefix .. level) end
  end
  return waiting
end

local function putKey(gate, level, key, tag, arrival)
  redis.call("HSET", gate.keysPrefix .. level, key, asText(tag) .. " " .. asText(arrival))
  redis.call("ZADD", gate.linePrefix .. level, asText(tag), string.format("%016.0f ", arrival) .. key)
end

local function runMember(key, arrival, runId)
  return key .. string.format(" %016.0f ", arrival) .. runId
end

-- At the head level the last one that came is the first: it was put before all others.
local function newTag(gate, level, virtual, weight)
  if level < headLevel then return virtual + math.floor(virtualUnit / weight) end
  local first = redis.call("ZRANGE", gate.linePrefix .. level, 0, 0, "WITHSCORES")
  return first[2] and first[2] - 1 or virtualUnit
end

function queues.open(known)
  if known.queues then return end
  known.queues = true
  redis.call("HSET", known.settingsKey, "queues", "true")
  redis.call("ZADD", dueKey, "NX", queues.never, known.visit)
end

-- Those that wait for their rates wait at no gate.
function queues.close(known)
  if not known.queues or redis.call("ZCARD", known.gateQueuesKey) > 0 or redis.call("ZCARD", known.queuedKey) > 0 then return end
  known.queues = false
  redis.call("HDEL", known.settingsKey, "queues")
  -- A visit that was asked for comes, and finds nothing.
  if redis.call("ZSCORE", dueKey, known.visit) == queues.never then redis.call("ZREM", dueKey, known.visit) end
end

-- Its age counts from when it came to its level, `since`.
function queues.join(known, gate, run, level, since)
  settingsOf(known)
  local key = keyOf(run, level)
  local numbers = redis.call("HMGET", gate.queueKey, "arrivals", "virtual:" .. level)
  local virtual = tonumber(numbers[2] or 0)
  run.level, run.arrival, run.since = level, (numbers[1] or 0) + 1, since
  if redis.call("HEXISTS", gate.keysPrefix .. level, key) == 0 then
    putKey(gate, level, key, newTag(gate, level, virtual, run.weight), run.arrival)
  end
  redis.call("HSET", gate.queueKey, "arrivals", asText(run.arrival), "virtual:" .. level, asText(virtual))
  redis.call("ZADD", gate.runsPrefix .. level, 0, runMember(key, run.arrival, run.id))
  redis.call("ZADD", known.gateQueuesKey, 0, gate.id)
  queues.open(known)
end

local function firstMember(gate, level, key)
  return redis.call("ZRANGE", gate.runsPrefix .. level, "[" .. key .. " ", "(" .. key .. "!", "BYLEX", "LIMIT", "0", "1")[1]
end

local function arrivalIn(member, key)
  return tonumber(string.sub(member, #key + 2, #key + 17))
end

-- What is granted, `weight` says so, moves on the tag of its key, and the virtual time of the level.
local function takeOut(known, gate, level, key, member, weight)
  local keysKey, lineKey, runsKey = gate.keysPrefix .. level, gate.linePrefix .. level, gate.runsPrefix .. level
  redis.call("ZREM", runsKey, member)
  local tag, arrival = string.match(redis.call("HGET", keysKey, key) or "", "^([^ ]+) ([^ ]+)$")
  local numbers = redis.call("HMGET", gate.queueKey, "arrivals", "virtual:" .. level)
  if not numbers[1] then return end
  local virtual = tonumber(numbers[2] or 0)
  if weight then virtual = math.max(virtual, tonumber(tag or 0)) end
  local following = firstMember(gate, level, key)
  if tag and (weight or not following) then
    redis.call("HDEL", keysKey, key)
    redis.call("ZREM", lineKey, string.format("%016.0f ", arrival) .. key)
  end
  if weight and following then
    putKey(gate, level, key, virtual + math.floor(virtualUnit / weight), arrivalIn(following, key))
  end
  if redis.call("ZCARD", runsKey) > 0 then
    redis.call("HSET", gate.queueKey, "virtual:" .. level, asText(virtual))
    return
  end
  redis.call("HDEL", gate.queueKey, "virtual:" .. level)
  if redis.call("HLEN", gate.queueKey) > 1 then return end
  redis.call("DEL", gate.queueKey)
  redis.call("ZREM", known.gateQueuesKey, gate.id)
  redis.call("ZREM", dueKey, "gate " .. known.id .. " " .. gate.id)
  queues.close(known)
end

function queues.leave(known, gate, run, granted)
  local key = keyOf(run, run.level)
  takeOut(known, gate, run.level, key, runMember(key, run.arrival, run.id), granted and run.weight)
  run.level, run.arrival, run.since = nil, nil, nil
end

-- Whether a run that waits is where it does.
function queues.has(gate, run)
  local key = keyOf(run, run.level)
  return redis.call("HEXISTS", gate.queueKey, "virtual:" .. run.level) == 1
    and redis.call("HEXISTS", gate.keysPrefix .. run.level, key) == 1
    and redis.call("ZSCORE", gate.runsPrefix .. run.level, runMember(key, run.arrival, run.id)) and true or false
end

-- No age lifts a run above the highest priority.
local function agedLevel(run)
  if run.level >= 9 then return run.level end
  return math.min(9, run.level + math.floor(math.max(0, nowMs - run.since) / run.agingMs))
end

local function isBefore(one, other)
  local difference = agedLevel(one) - agedLevel(other)
  if difference ~= 0 then return difference > 0 end
  if one.since ~= other.since then return one.since < other.since end
  return one.level > other.level
end

local function runOf(known, member)
  local run = member and gates.read(known, string.match(member, "[^ ]+$"))
  return run and run.level and run or nil
end

local triesMax = 8

-- What is in the queue and does not wait there, however that came, is taken out when it is at the head.
local function headOfLevel(known, gate, level)
  for _ = 1, triesMax do
    local first = redis.call("ZRANGE", gate.linePrefix .. level, 0, 0)[1]
    if not first then return nil end
    local key = string.sub(first, 18)
    local member = firstMember(gate, level, key) or runMember(key, 0, "")
    local run = runOf(known, member)
    if run and run.level == level and run.arrival == arrivalIn(member, key) then return run end
    takeOut(known, gate, level, key, member)
    if not firstMember(gate, level, key) then redis.call("ZREM", gate.linePrefix .. level, first) end
  end
end

function queues.headOf(known, gate)
  local best
  for _, level in ipairs((queues.levelsOf(gate))) do
    local run = headOfLevel(known, gate, level)
    if run and (not best or isBefore(run, best)) then best = run end
  end
  return best
end

local function lineOf(gate, level, limit)
  local members, keys = redis.call("ZRANGE", gate.linePrefix .. level, 0, limit - 1, "WITHSCORES"), {}
  for index = 1, #members, 2 do
    local arrival, name = string.match(members[index], "^([0-9]+) (.*)$")
    keys[#keys + 1] = { name = name, tag = tonumber(members[index + 1]), arrival = tonumber(arrival), passed = 0 }
  end
  return { keys = keys, runsKey = gate.runsPrefix .. level }
end

local function memberOf(line, key)
  local from, to = "[" .. key.name .. " ", "(" .. key.name .. "!"
  return redis.call("ZRANGE", line.runsKey, from, to, "BYLEX", "LIMIT", string.format("%.0f", key.passed), "1")[1]
end

-- As a grant does it to what is stored.
local function passHead(line)
  local key = table.remove(line.keys, 1)
  key.tag, key.passed = key.tag + math.floor(virtualUnit / key.run.weight), key.passed + 1
  key.run = nil
  local member = memberOf(line, key)
  if not member then return end
  key.arrival = arrivalIn(member, key.name)
  local place = 1
  for index, other in ipairs(line.keys) do
    if other.tag < key.tag or other.tag == key.tag and other.arrival < key.arrival then place = index + 1 end
  end
  table.insert(line.keys, place, key)
end

function queues.orderOf(known, gate, limit)
  local lines, order = {}, {}
  for _, level in ipairs((queues.levelsOf(gate))) do lines[#lines + 1] = lineOf(gate, level, limit) end
  while #order < limit do
    local best, bestLine
    for _, line in ipairs(lines) do
      local key = line.keys[1]
      if key and not key.run then key.run = runOf(known, memberOf(line, key)) end
      if key and key.run and (not best or isBefore(key.run, best)) then best, bestLine = key.run, line end
    end
    if not best then break end
    order[#order + 1] = best
    passHead(bestLine)
  end
  return order
end
