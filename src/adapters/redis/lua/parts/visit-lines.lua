#!lua
--[[
  The visits of the lines in which budgets hold jobs. One lets go, from the head, as many as fit by their estimates: a claim
  judges them again. They are named to workers anew.
  Reads: start, dueKey, now, nowMs, checkSet, tenantOf, readyKeyOf, useLimits, republishFirstMs, runIdOf, found (it adds to
  the list unclaimed and to work)
  Sets: visitLine (given a tenant and a budget), visitLines (given a tenant and the budget after which it goes on)
]]
local letGoMax, linesMax = 100, 100

local function lineMember(tenant, id)
  return "budget " .. tenant .. " " .. id
end

-- Those that go, in their order: a job that is gone by now, or not parked any more, has no text.
local function readHead(known, id, members)
  local _, budgets, meters = useLimits()
  local ledger = budgets.ledgerOf(known, id, (budgets.periodAt(id, nowMs)))
  local amount, stops = budgets.amountOf(known, id), budgets.stops(known, id)
  local goes, reserved = { count = 0 }, 0
  for _, jobId in ipairs(members) do
    local text = redis.call("HGET", known.runPrefix .. runIdOf(jobId), "job:" .. jobId) or ""
    local rest, topic, spec = string.match(text, "^parked [^ ]+ [^ ]+ (" .. string.rep("[^ ]+ ", 7) .. "([^ ]+) ([^ ]+) .*)$")
    local estimate = spec and meters.estimateOf(spec)[budgets.unitOf(id)] or 0
    -- What is granted as one that no budget can pay for does not wait either.
    local isInVain = not amount or stops or estimate > amount
    local taken = { spent = ledger.spent, reserved = ledger.reserved + reserved }
    if not isInVain and not budgets.fits(taken, amount, estimate) then break end
    if not isInVain then reserved = reserved + estimate end
    goes[#goes + 1] = { id = jobId, rest = rest, topic = topic }
    if topic then
      readyKeyOf(known, topic)
      goes.count = goes.count + 1
    end
  end
  return goes
end

local function letGo(known, line, job)
  redis.call("ZREM", line, job.id)
  if not job.topic then return end
  local createdAt = string.match(job.rest, "^" .. string.rep("[^ ]+ ", 6) .. "([^ ]+)")
  local text = "ready 0 - " .. job.rest
  redis.call("HSET", known.runPrefix .. runIdOf(job.id), "job:" .. job.id, text)
  redis.call("ZADD", readyKeyOf(known, job.topic), createdAt, job.id)
  redis.call("ZADD", dueKey, string.format("%.0f", nowMs + republishFirstMs), "unclaimed " .. known.id .. " " .. job.id)
  found.unclaimed[#found.unclaimed + 1] = { known.id, job.id, text }
end

local function visitLine(tenant, id)
  local known, _, budgets = tenantOf(tenant), useLimits()
  local line, lines = budgets.lineOf(known, id)
  for _, key in ipairs({ lines, dueKey }) do checkSet(key) end
  local members = redis.call("ZRANGE", line, 0, letGoMax - 1)
  local goes = readHead(known, id, members)
  for _, job in ipairs(goes) do letGo(known, line, job) end
  found.work = found.work + 8 + 6 * #goes
  if redis.call("ZCARD", line) == 0 then
    redis.call("ZREM", lines, id)
    return
  end
  local _, endMs = budgets.periodAt(id, nowMs)
  redis.call("ZADD", dueKey, string.format("%.0f", goes.count == letGoMax and nowMs or endMs), lineMember(tenant, id))
end

-- What holds of the tenant's budgets has changed: all that hold jobs are visited.
local function visitLines(tenant, after)
  local linesKey, most = start .. "parked-lines:" .. tenant, string.format("%.0f", linesMax)
  local ids = redis.call("ZRANGE", linesKey, "(" .. after, "+", "BYLEX", "LIMIT", "0", most)
  for _, id in ipairs(ids) do redis.call("ZADD", dueKey, "LT", now, lineMember(tenant, id)) end
  if #ids == linesMax then redis.call("ZADD", dueKey, now, "budgets " .. tenant .. " " .. ids[linesMax]) end
  found.work = found.work + 4 + #ids
end
