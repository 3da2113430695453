#!lua
--[[
  What the items of a call need of their tenants, read once for all of them: none of the operations that use it changes a
  tenant's settings or workflows, and what they count here they go on counting themselves.
  Reads: start, dueKey
  Sets: tenantOf (given a tenant's id: its keys, and what was read of it), settingsOf (given that: limit, stopped, revoked,
  limits, activeMax, gates and budgets of the tenant, each as text or ""), readQueues (whether runs of it wait at gates, as
  known.queues; settingsOf reads that as well), readProof and writeProof (when its slots and keys are proved),
  checkSet (given the key of a sorted set), readyKeyOf (given a tenant and a topic)
]]
local checkedSets, knownTenants = {}, {}

-- Asking for its size refuses a key of another type while nothing is written yet.
local function checkSet(key)
  if not checkedSets[key] then
    redis.call("ZCARD", key)
    checkedSets[key] = true
  end
end

local function tenantOf(id)
  local known = knownTenants[id]
  if not known then
    known = {
      id = id,
      settingsKey = start .. "tenant:" .. id,
      activeKey = start .. "active:" .. id,
      eventsKey = start .. "events:" .. id,
      runsKey = start .. "runs:" .. id,
      keyedKey = start .. "keyed:" .. id,
      runningKey = start .. "running:" .. id,
      runPrefix = start .. "run:" .. id .. ":",
      inboxPrefix = start .. "inbox:" .. id .. ":",
      reservationPrefix = start .. "wf:run:idempotency:" .. id .. ":",
      readyPrefix = start .. "ready:" .. id .. ":",
      heldGatesKey = start .. "held-gates:" .. id,
      gateQueuesKey = start .. "gate-queues:" .. id,
      queuedKey = start .. "queued:" .. id,
      proof = "proof " .. id .. " ",
      visit = "gates " .. id .. " ",
      current = {},
      gates = {},
    }
    knownTenants[id] = known
  end
  return known
end

local function settingsOf(known)
  if not known.settings then
    local read = redis.call("HMGET", known.settingsKey, "limit", "stopped", "revoked", "limits", "quota:active_runs", "gates",
      "queues", "budgets")
    known.settings = {
      limit = read[1] or "", stopped = read[2] == "true", revoked = read[3] or "", limits = read[4] or "", activeMax = read[5] or "",
      gates = read[6] or "", budgets = read[8] or "",
    }
    if known.queues == nil then known.queues = read[7] == "true" end
  end
  return known.settings
end

-- While runs of a tenant wait at gates, the visit of these is among what is due: the same call shows that due is a sorted set.
local function readQueues(known)
  if known.queues ~= nil then return checkSet(dueKey) end
  known.queues = redis.call("ZSCORE", dueKey, known.visit) and true or false
  checkedSets[dueKey] = true
end

local function readyKeyOf(known, topic)
  local key = known.readyPrefix .. topic
  checkSet(key)
  return key
end

local function readProof(known)
  if known.proofAt == nil then
    known.proofAt = tonumber(redis.call("ZSCORE", dueKey, known.proof) or "") or false
    checkedSets[dueKey] = true
  end
end

local function writeProof(known, at)
  if not known.proofAt or known.proofAt > at then
    redis.call("ZADD", dueKey, "LT", string.format("%.0f", at), known.proof)
    known.proofAt = at
  end
end
