#!lua
--[[
  What claims use: whether one passes the rates of its topic and the budgets that pay for it, what it takes of them, and what
  its end settles. A job's spec begins with its meter, where it has one: {"meter":" and words of e:<unit>=<amount> and
  b:<budget>=<at limit>, which stand apart as the words of a spec do. A charge is the field charge:<job> of its run:
  "<token>", and behind it " e:<unit>=<amount>" of each amount of its estimate, " h:<unit>=<amount>" of what heartbeats have
  told, " r:<rate>=<units>,<level>,<at>,<limit>,<perMs>,<burst>" of what it has taken, " l:<budget>@<start of the
  period>=<reserved>,<at limit>" of what it has reserved, and " s:" and " s:<unit>=<amount>" once it was settled without the
  worker's word. Nothing is written here.
  Reads: nowMs, rates, budgets
  Sets: meters (a table of functions: amountsOf of a text of " <unit>=<amount>"; estimateOf of a spec; judge of a tenant, the
  limits of its topics, and a job, a table of topic, spec, id and createdAt: the cost, with a refusal, or the budget that it is
  over; keepRefused of a tenant, a job and its cost; take of a tenant, a job, its cost, the token and the worker's word: the charge's
  text, or nil, and the word; parse of a charge's text; textOf a charge; settle of a tenant, a charge, how it ended, "reported",
  "handed_back" or "gone", and the usage: the text of a charge that is kept, or nil; hear of a tenant, a charge and the usage:
  the budget that is overspent, or nil)
]]
local meters = {}

local function wholeUnits(amount)
  return math.min(1000000000, math.ceil(amount / 1000000))
end

function meters.amountsOf(text)
  local amounts = {}
  for unit, amount in string.gmatch(text, " ([^ =]+)=([0-9]+)") do amounts[unit] = tonumber(amount) end
  return amounts
end

local function meterOf(spec)
  local meter, text = { estimate = {}, budgets = {} }, string.match(spec, '^{"meter":"([^"]*)"') or ""
  for kind, name, value in string.gmatch(text, "(%a):([^=]*)=([^\1]*)") do
    if kind == "e" then meter.estimate[name] = tonumber(value)
    else meter.budgets[#meter.budgets + 1] = { id = name, atLimit = value } end
  end
  return meter
end

function meters.estimateOf(spec)
  return meterOf(spec).estimate
end

local function ratesOf(limits, topic)
  local found, prefix, at = {}, " u:" .. topic .. "=", 1
  while true do
    local _, last = string.find(limits, prefix, at, true)
    if not last then return found end
    local limit, perMs, burst, unit = string.match(limits, "^([0-9]+),([0-9]+),([0-9]+),([^ ]+)", last + 1)
    found[#found + 1] = {
      id = "topic." .. topic .. "~" .. unit .. "~" .. perMs, limit = tonumber(limit), perMs = tonumber(perMs), burst = tonumber(burst),
      unit = unit ~= "-" and unit or nil,
    }
    at = last + 1
  end
end

local function unitsOf(meter, terms)
  return terms.unit and wholeUnits(meter.estimate[terms.unit] or 0) or 1
end

local function memberOf(job)
  return string.format("%016.0f ", tonumber(job.createdAt)) .. job.id
end

-- The oldest claim that was refused is remembered until its time and a second more: a younger one is refused meanwhile.
local turnMs = 1000

local function judgeRates(known, job, cost)
  for _, terms in ipairs(cost.rates) do
    local rate = rates.of(known, terms.id)
    local level = rates.levelOf(rate, terms)
    local waitMs, member = rates.waitMs(terms, level, unitsOf(cost.meter, terms)), memberOf(job)
    local isFirst = not rate.first or member <= rate.first
    if not isFirst or waitMs > 0 then
      cost.refusal = "topic_rate"
      cost.againInMs = math.max(1, waitMs, isFirst and 0 or rate.untilMs - turnMs - nowMs)
      cost.refused = { rate = rate, terms = terms, level = level, first = isFirst and member or nil }
      return
    end
  end
end

function meters.judge(known, limits, job)
  local meter = meterOf(job.spec)
  local cost = { meter = meter, rates = ratesOf(limits, job.topic) }
  judgeRates(known, job, cost)
  if cost.refusal then return cost end
  -- What the control plane itself writes to its log costs nobody anything.
  cost.payers = job.topic == "interlock.notify" and {} or budgets.payersOf(known, meter.budgets)
  for _, payer in ipairs(cost.payers) do
    local estimate = meter.estimate[payer.unit] or 0
    if payer.amount and not budgets.fits(payer.ledger, payer.amount, estimate) then
      if payer.atLimit == "stop" or estimate > payer.amount then cost.over = payer.id
      else cost.refusal, cost.holds = "budget_held", payer end
      return cost
    end
  end
  return cost
end

-- What a refused claim leaves behind: its turn, or its place in the line of a budget.
function meters.keepRefused(known, job, cost)
  if cost.holds then
    budgets.park(known, cost.holds.id, job.id, job.createdAt, cost.holds.endMs)
    return
  end
  local rate, terms = cost.refused.rate, cost.refused.terms
  if cost.refused.first then
    rate.first, rate.untilMs = cost.refused.first, nowMs + cost.againInMs + turnMs
    rates.put(rate, terms, cost.refused.level)
  else
    rates.renew(rate, terms)
  end
end

local function marked(worker, mark)
  if string.sub(worker, 1, 1) == "[" then return string.sub(worker, 1, -2) .. mark .. "]" end
  return "[" .. worker .. ',""' .. mark .. "]"
end

function meters.take(known, job, cost, token, worker)
  if cost.over then return nil, marked(worker, ',["' .. cost.over .. '"]') end
  local charge = { token = token, estimate = cost.meter.estimate, heard = {}, rates = {}, ledgers = {} }
  for _, terms in ipairs(cost.rates) do
    local rate, units = rates.of(known, terms.id), unitsOf(cost.meter, terms)
    rates.put(rate, terms, rates.levelWith(terms, rates.levelOf(rate, terms), units))
    if rate.first == memberOf(job) then rate.first, rate.untilMs = nil, nil end
    if terms.unit then
      charge.rates[#charge.rates + 1] = {
        id = terms.id, units = units, level = rate.level, at = nowMs, limit = terms.limit, perMs = terms.perMs, burst = terms.burst,
      }
    end
  end
  for _, payer in ipairs(cost.payers) do
    local estimate = cost.meter.estimate[payer.unit] or 0
    budgets.reserve(known, payer.ledger, estimate)
    charge.ledgers[#charge.ledgers + 1] = { id = payer.id, startMs = payer.ledger.startMs, reserved = estimate, atLimit = payer.atLimit }
  end
  if #charge.rates == 0 and #charge.ledgers == 0 then return nil, worker end
  return meters.textOf(charge), marked(worker, ",1")
end

function meters.textOf(charge)
  local words = { charge.token }
  local function addAmounts(kind, amounts)
    for unit, amount in pairs(amounts) do words[#words + 1] = kind .. ":" .. unit .. string.format("=%.0f", amount) end
  end
  addAmounts("e", charge.estimate)
  addAmounts("h", charge.heard)
  for _, taken in ipairs(charge.rates) do
    words[#words + 1] = "r:" .. taken.id .. string.format("=%.0f,%.0f,%.0f,%.0f,%.0f,%.0f", taken.units, taken.level, taken.at,
      taken.limit, taken.perMs, taken.burst)
  end
  for _, each in ipairs(charge.ledgers) do
    words[#words + 1] = "l:" .. each.id .. string.format("@%.0f=%.0f,", each.startMs, each.reserved) .. each.atLimit
  end
  if charge.settled then
    words[#words + 1] = "s:"
    addAmounts("s", charge.settled)
  end
  return table.concat(words, " ")
end

function meters.parse(text)
  local charge = { token = string.match(text, "^[^ ]+"), estimate = {}, heard = {}, rates = {}, ledgers = {} }
  for kind, name, value in string.gmatch(text, " (%a):([^ =]*)=?([^ ]*)") do
    if kind == "e" then charge.estimate[name] = tonumber(value)
    elseif kind == "h" then charge.heard[name] = tonumber(value)
    elseif kind == "s" then
      charge.settled = charge.settled or {}
      charge.settled[name] = tonumber(value)
    elseif kind == "r" then
      local numbers = {}
      for number in string.gmatch(value, "[0-9]+") do numbers[#numbers + 1] = tonumber(number) end
      local units, level, at, limit, perMs, burst = unpack(numbers)
      charge.rates[#charge.rates + 1] = { id = name, units = units, level = level, at = at, limit = limit, perMs = perMs, burst = burst }
    else
      local id, startMs = string.match(name, "^(.*)@([0-9]+)$")
      local reserved, atLimit = string.match(value, "^([0-9]+),(.*)$")
      charge.ledgers[#charge.ledgers + 1] = { id = id, startMs = tonumber(startMs), reserved = tonumber(reserved), atLimit = atLimit }
    end
  end
  return charge
end

-- By unit, what an end without the worker's last word counts, or what the worker has said.
local function usedBy(charge, how, usage)
  local used = {}
  for _, amounts in ipairs({ charge.estimate, charge.heard, usage }) do
    for unit in pairs(amounts) do
      local told, expected = usage[unit] or charge.heard[unit], how == "handed_back" and 0 or charge.estimate[unit] or 0
      used[unit] = how == "gone" and math.max(expected, told or 0) or told or expected
    end
  end
  return used
end

-- In the place of what was reserved and taken, or of what was counted when the claim was lost.
local function countUsed(known, charge, used)
  local settled = charge.settled
  for _, taken in ipairs(charge.rates) do
    local unit, rate = string.match(taken.id, "~([^~]*)~[0-9]+$"), rates.of(known, taken.id)
    local level = rates.levelOf(rate, taken)
    if settled then taken.units = wholeUnits(settled[unit] or 0) end
    local now = rates.settled(taken, level, wholeUnits(used[unit] or 0))
    if now ~= level then rates.put(rate, taken, now) end
  end
  for _, each in ipairs(charge.ledgers) do
    local unit = budgets.unitOf(each.id)
    local spent = (used[unit] or 0) - (settled and settled[unit] or 0)
    budgets.change(known, budgets.ledgerOf(known, each.id, each.startMs), spent, settled and 0 or -each.reserved)
  end
end

-- One that ended without the worker's word keeps its charge, which the late report of its token corrects once.
function meters.settle(known, charge, how, usage)
  local units = {}
  for index, taken in ipairs(charge.rates) do units[index] = taken.units end
  local used = usedBy(charge, how, usage)
  countUsed(known, charge, used)
  if how ~= "gone" then return nil end
  for index, taken in ipairs(charge.rates) do taken.units = units[index] end
  charge.settled = used
  return meters.textOf(charge)
end

-- What a heartbeat tells of beyond what is reserved is reserved as well.
function meters.hear(known, charge, usage)
  local overspent
  for unit, amount in pairs(usage) do charge.heard[unit] = math.max(charge.heard[unit] or 0, amount) end
  for _, each in ipairs(charge.ledgers) do
    local unit, ledger = budgets.unitOf(each.id), budgets.ledgerOf(known, each.id, each.startMs)
    local reserved = math.max(each.reserved, charge.heard[unit] or 0)
    if reserved > each.reserved then budgets.change(known, ledger, 0, reserved - each.reserved) end
    each.reserved = reserved
    if reserved > (charge.estimate[unit] or 0) and each.atLimit == "stop" and not overspent then
      local amount = budgets.amountOf(known, each.id)
      if amount and ledger.spent + ledger.reserved > amount then overspent = each.id end
    end
  end
  return overspent
end
