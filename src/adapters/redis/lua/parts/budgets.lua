#!lua
--[[
  Budgets as domain/budgets.ts has them. ledgers:<tenant> is a hash of "<spent> <reserved> <crossed> <first>" by the ledger's
  name, "<budget> <start of the period, 16 digits>"; ledger-ids:<tenant> the sorted set of these names, all with score 0.
  parked:<tenant>:<budget> is the line of a budget, the sorted set of the jobs that it holds by the time of their creation;
  parked-lines:<tenant> the sorted set of the budgets that hold jobs, all with score 0: each of them is visited, and stands
  among what is due. What an operation changes is kept in the table that `ledgerOf` gives, until `write`.
  Reads: start, dueKey, now, nowMs, settingsOf, checkSet
  Sets: budgets (a table of functions: periodAt of a budget's id and a time, gives the
  start and the end of that period; unitOf of an id; amountOf of a tenant and an id, the amount or false; stops of these,
  whether it is one of the tenant that fails its jobs; payersOf of a tenant
  and the budgets of a workflow, a list of id and atLimit, gives those and the tenant's in the order of their ledgers, each
  with unit, amount, ledger and endMs; fits of a ledger, an amount and an estimate; ledgerOf of a tenant, an id and the start
  of a period; reserve of a tenant, a ledger and an estimate; change of a tenant, a ledger and what is added to spent and
  reserved; park of a tenant, an id, a job, its createdAt and the end of the period; unpark of a tenant, an id and a job;
  lineOf of a tenant and an id, the keys of its line and of all lines; write of a tenant and a list of commands, which gets
  those that store what was changed; and crossed, a list of what the feed is told: id and detail of each)
]]
local budgets, ledgersRead, ledgersInOrder, amountsRead, lineCommands, held = { crossed = {} }, {}, {}, {}, {}, {}
local dayMs, mondayMs, ledgerKeptMs = 86400000, 345600000, 3024000000
local periodMs = { hour = 3600000, day = dayMs, week = 7 * dayMs }
local crossings = { 50, 80, 100 }

-- The day of the month, from 1 on, of a day since 1970: days are counted from a 1st of March in eras of 400 years.
local function dayOfMonth(day)
  local ofEra = (day + 719468) % 146097
  local year = math.floor((ofEra - math.floor(ofEra / 1460) + math.floor(ofEra / 36524) - math.floor(ofEra / 146096)) / 365)
  local ofYear = ofEra - (365 * year + math.floor(year / 4) - math.floor(year / 100))
  local month = math.floor((5 * ofYear + 2) / 153)
  return ofYear - math.floor((153 * month + 2) / 5) + 1
end

local function periodAt(per, atMs)
  if per == "month" then
    local today = math.floor(atMs / dayMs)
    local first = today - dayOfMonth(today) + 1
    return first * dayMs, (first + 31 - dayOfMonth(first + 31) + 1) * dayMs
  end
  local length, offset = periodMs[per], per == "week" and mondayMs or 0
  local startMs = math.floor((atMs - offset) / length) * length + offset
  return startMs, startMs + length
end

local function specOf(id)
  return string.match(id, "^tenant%.(.*)$") or string.match(id, "^workflow%..*%.([^.]*)%.[^.]*$")
end

local function perOf(id)
  return string.match(specOf(id), "~(%a+)$")
end

function budgets.unitOf(id)
  return string.match(specOf(id), "~([^~]*)~%a+$")
end

function budgets.periodAt(id, atMs)
  return periodAt(perOf(id), atMs)
end

local function wordAfter(text, name)
  local _, last = string.find(text, " " .. name .. "=", 1, true)
  return last and string.match(text, "^[^ ]+", last + 1) or ""
end

-- One that is not set any more has no amount: it stops nobody.
function budgets.amountOf(known, id)
  if amountsRead[id] == nil then
    local text, workflow = "", string.match(id, "^workflow%.(.*)%.[^.]*%.[^.]*$")
    if workflow then
      local documentsKey = start .. "documents:" .. known.id .. ":workflow"
      text = wordAfter(redis.call("HGET", documentsKey, "limits:" .. workflow) or "", "budget." .. specOf(id))
    else
      text = wordAfter(settingsOf(known).budgets, specOf(id))
    end
    amountsRead[id] = tonumber(string.match(text, "^[0-9]+")) or false
  end
  return amountsRead[id]
end

function budgets.stops(known, id)
  return string.match(wordAfter(settingsOf(known).budgets, string.match(id, "^tenant%.(.*)$") or "="), ",stop$") and true or false
end

local function payerOf(known, id, atLimit)
  local startMs, endMs = periodAt(perOf(id), nowMs)
  return {
    id = id, atLimit = atLimit, unit = budgets.unitOf(id), amount = budgets.amountOf(known, id), endMs = endMs,
    ledger = budgets.ledgerOf(known, id, startMs),
  }
end

function budgets.payersOf(known, ofWorkflow)
  local payers = {}
  for spec, atLimit in string.gmatch(settingsOf(known).budgets, " ([^ =]+)=[0-9]+,(%a+)") do
    payers[#payers + 1] = payerOf(known, "tenant." .. spec, atLimit)
  end
  for _, each in ipairs(ofWorkflow) do payers[#payers + 1] = payerOf(known, each.id, each.atLimit) end
  table.sort(payers, function(one, other) return one.ledger.name < other.ledger.name end)
  return payers
end

function budgets.fits(ledger, amount, estimate)
  local taken = ledger.spent + ledger.reserved
  return taken < amount and taken + estimate <= amount
end

function budgets.ledgerOf(known, id, startMs)
  local name = id .. string.format(" %016.0f", startMs)
  local ledger = ledgersRead[name]
  if not ledger then
    local text = redis.call("HGET", start .. "ledgers:" .. known.id, name)
    local spent, reserved, crossed, first = string.match(text or "", "^([0-9]+) ([0-9]+) ([0-9]+) ([0-9]+)$")
    ledger = {
      id = id, name = name, startMs = startMs, isKept = first and true or false, isNew = not first,
      spent = tonumber(spent or 0), reserved = tonumber(reserved or 0), crossed = tonumber(crossed or 0), first = first or now,
    }
    ledgersRead[name] = ledger
    ledgersInOrder[#ledgersInOrder + 1] = ledger
  end
  return ledger
end

function budgets.lineOf(known, id)
  return start .. "parked:" .. known.id .. ":" .. id, start .. "parked-lines:" .. known.id
end

local function sum(one, other)
  return math.max(0, math.min(9007199254740991, one + other))
end

-- It begins with the first claim of its period.
function budgets.reserve(known, ledger, estimate)
  checkSet(dueKey)
  if ledger.isNew then checkSet(start .. "ledger-ids:" .. known.id) end
  ledger.reserved, ledger.isKept, ledger.isChanged = sum(ledger.reserved, estimate), true, true
end

-- One that was removed is not made again.
function budgets.change(known, ledger, spent, reserved)
  if not ledger.isKept then return end
  local before = ledger.spent + ledger.reserved
  ledger.spent, ledger.reserved, ledger.isChanged = sum(ledger.spent, spent), sum(ledger.reserved, reserved), true
  local amount = spent > 0 and budgets.amountOf(known, ledger.id)
  local name, unit = string.match(specOf(ledger.id), "^([^~]*)~([^~]*)~")
  for _, percent in ipairs(crossings) do
    if amount and percent > ledger.crossed and ledger.spent * 100 >= amount * percent then
      ledger.crossed = percent
      budgets.crossed[#budgets.crossed + 1] = { ledger.id, name .. " " .. unit .. string.format(" %.0f", percent) }
    end
  end
  checkSet(dueKey)
  if ledger.spent + ledger.reserved < before then
    lineCommands[#lineCommands + 1] = { "ZADD", dueKey, "XX", "LT", now, "budget " .. known.id .. " " .. ledger.id }
  end
end

function budgets.park(known, id, jobId, createdAt, endMs)
  local line, lines = budgets.lineOf(known, id)
  for _, key in ipairs({ line, lines, dueKey }) do checkSet(key) end
  lineCommands[#lineCommands + 1] = { "ZADD", line, createdAt, jobId }
  lineCommands[#lineCommands + 1] = { "ZADD", lines, 0, id }
  lineCommands[#lineCommands + 1] = { "ZADD", dueKey, "LT", string.format("%.0f", endMs), "budget " .. known.id .. " " .. id }
end

-- A line that holds nobody any more is forgotten.
function budgets.unpark(known, id, jobId)
  local line, lines = budgets.lineOf(known, id)
  if not redis.call("ZSCORE", line, jobId) then return end
  for _, key in ipairs({ lines, dueKey }) do checkSet(key) end
  held[id] = (held[id] or redis.call("ZCARD", line)) - 1
  lineCommands[#lineCommands + 1] = { "ZREM", line, jobId }
  if held[id] == 0 then
    lineCommands[#lineCommands + 1] = { "ZREM", lines, id }
    lineCommands[#lineCommands + 1] = { "ZREM", dueKey, "budget " .. known.id .. " " .. id }
  end
end

function budgets.write(known, commands)
  local ledgersKey, idsKey = start .. "ledgers:" .. known.id, start .. "ledger-ids:" .. known.id
  for _, ledger in ipairs(ledgersInOrder) do
    if ledger.isChanged then
      commands[#commands + 1] = { "HSET", ledgersKey, ledger.name,
        string.format("%.0f %.0f %.0f ", ledger.spent, ledger.reserved, ledger.crossed) .. ledger.first }
    end
    if ledger.isChanged and ledger.isNew then
      local _, endMs = budgets.periodAt(ledger.id, ledger.startMs)
      commands[#commands + 1] = { "ZADD", idsKey, 0, ledger.name }
      commands[#commands + 1] = { "ZADD", dueKey, string.format("%.0f", endMs + ledgerKeptMs), "ledger " .. known.id .. " " .. ledger.name }
    end
  end
  for _, command in ipairs(lineCommands) do commands[#commands + 1] = command end
end
