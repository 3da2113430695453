#!lua
--[[
  What the sweep does with runs and jobs. Every handler reads first; what it reads has the type that it then writes.
  Reads: start, dueKey, nowMs, now, settings, found, terminal, planRemoval, removePlanned, readWorker
  Sets: visitRun, loseClaim, fireTimer, publishAgain, removeEnded (each takes the tenant and the subject)
]]
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
  redis.call("ZADD", dueKey, inMs(settings.attentionMs), "attention " .. tenant .. " " .. runId)
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
  redis.call("ZADD", dueKey, "NX", inMs(settings.attentionMs), "attention " .. way.tenant .. " " .. way.runId)
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
  local worker, pool = readWorker(word)
  if pool then
    local runningKey = start .. "running:" .. tenant
    local topic = string.match(rest, "^" .. string.rep(" [^ ]+", 9) .. " ([^ ]+)")
    redis.call("ZCARD", runningKey)
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
  local waitMs = math.min(settings.republishAfterMaxMs, settings.republishAfterMs * 2 ^ republished)
  redis.call("HSET", runKey, "job:" .. jobId, state .. " " .. string.format("%.0f", republished) .. rest)
  redis.call("ZADD", dueKey, inMs(waitMs), "unclaimed " .. tenant .. " " .. jobId)
  found.unclaimed[#found.unclaimed + 1] = { tenant, jobId, text }
end

local function removeEnded(tenant, runId)
  if not redis.call("HGET", start .. "run:" .. tenant .. ":" .. runId, "status") then return end
  local plan = planRemoval(tenant, runId)
  found.work = found.work + plan.work
  removePlanned(plan)
  if plan.more then redis.call("ZADD", dueKey, now, "retention " .. tenant .. " " .. runId) end
end
