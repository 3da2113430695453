#!lua
--[[
  Rates as levels that drain, with the arithmetic of domain/rates.ts: both count in doubles, so that the results are equal.
  rate:<tenant>:<rate> is "<level> <at>", and behind it " <createdAt, 16 digits> <job> <until>" of the oldest claim that was
  refused, which goes before all others until then. It expires when the level has drained and nobody goes before others.
  What an operation changes is kept in the table that `of` gives, until `write`. A rate's terms are a table of limit, perMs
  and burst.
  Reads: start, now, nowMs
  Sets: rates (a table of functions: of a tenant and a rate's id; levelOf of that and its terms; renew of it and its terms,
  which keeps a level anew that lies ahead of the clock; put of it, its terms and a level; waitMs of terms, a level and units;
  levelWith of terms, a level and units; left of a tenant and the rates of a start, as `judge-rates` describes them, of the
  one with the least left: limit, perMs, what passes at once, and until when nothing of it is used any more; positionOf a run
  that waits and these rates; settled of what a claim took, a level and what it used; write of a list of commands, which gets
  those that store what was changed)
]]
local rates, ratesRead, ratesInOrder, levelMax = {}, {}, {}, 9007199254740991

function rates.of(known, id)
  local key = start .. "rate:" .. known.id .. ":" .. id
  local rate = ratesRead[key]
  if not rate then
    local level, at, behind = string.match(redis.call("GET", key) or "", "^([0-9]+) ([0-9]+)(.*)$")
    rate = { id = id, key = key, isKept = level and true or false, level = tonumber(level or 0), at = tonumber(at or now) }
    local first, untilMs = string.match(behind or "", "^ ([^ ]+ [^ ]+) ([0-9]+)$")
    -- A turn that was given before the clock was set back would last as long as the step.
    if first and tonumber(untilMs) > nowMs and rate.at <= nowMs then rate.first, rate.untilMs = first, tonumber(untilMs) end
    ratesRead[key] = rate
    ratesInOrder[#ratesInOrder + 1] = rate
  end
  return rate
end

function rates.levelOf(rate, terms)
  return math.max(0, rate.level - terms.limit * math.max(0, nowMs - rate.at))
end

function rates.put(rate, terms, level)
  rate.level, rate.at, rate.limit, rate.isChanged = level, nowMs, terms.limit, true
end

function rates.renew(rate, terms)
  if rate.at > nowMs then rates.put(rate, terms, rate.level) end
end

function rates.waitMs(terms, level, units)
  local allowed = math.max(0, terms.burst - units) * terms.perMs
  return level <= allowed and 0 or math.ceil((level - allowed) / terms.limit)
end

function rates.levelWith(terms, level, units)
  return math.min(levelMax, level + units * terms.perMs)
end

function rates.left(known, ratesText)
  local left = {}
  for id, limit, perMs, burst in string.gmatch(ratesText, "([^ ]+) ([^ ]+) ([^ ]+) ([^ ]+) [^ ]+") do
    local terms = { limit = tonumber(limit), perMs = tonumber(perMs), burst = tonumber(burst) }
    local level = rates.levelOf(rates.of(known, id), terms)
    local remaining = math.max(0, math.floor((terms.burst * terms.perMs - level) / terms.perMs))
    if not left[3] or remaining < left[3] then left = { terms.limit, terms.perMs, remaining, math.ceil(level / terms.limit) } end
  end
  return left
end

-- How many starts go before this one, itself included: as many as its rate lets through until then.
function rates.positionOf(run, ratesText)
  for id, limit, perMs in string.gmatch(ratesText, "([^ ]+) ([^ ]+) ([^ ]+) [^ ]+ [^ ]+") do
    if id == run.rate then return math.max(1, math.ceil((run.startsAt - nowMs) * limit / perMs)) end
  end
  return 1
end

function rates.settled(taken, level, used)
  if used >= taken.units then return rates.levelWith(taken, level, used - taken.units) end
  local undrained = taken.level - taken.limit * math.max(0, nowMs - taken.at)
  return level - math.min((taken.units - used) * taken.perMs, math.max(0, undrained), level)
end

function rates.write(commands)
  for _, rate in ipairs(ratesInOrder) do
    if rate.isChanged then
      local keepMs = math.ceil(rate.level / rate.limit)
      local text = string.format("%.0f %.0f", rate.level, rate.at)
      if rate.first then
        text = text .. " " .. rate.first .. string.format(" %.0f", rate.untilMs)
        keepMs = math.max(keepMs, rate.untilMs - nowMs)
      end
      if keepMs > 0 then commands[#commands + 1] = { "SET", rate.key, text, "PX", string.format("%.0f", keepMs) }
      elseif rate.isKept then commands[#commands + 1] = { "DEL", rate.key } end
    end
  end
end
