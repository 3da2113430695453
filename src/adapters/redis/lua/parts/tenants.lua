#!lua
--[[
  What the items of a call need of their tenants, read once for all of them: none of the operations that use it changes a
  tenant's settings or workflows, and what they count here they go on counting themselves.
  Reads: start, dueKey
  Sets: tenantOf (given a tenant's id: its keys, and what was read of it), settingsOf (given that: limit, stopped, revoked,
  limits and activeMax of the tenant, each as text or ""), readProof and writeProof (when its slots and keys are proved),
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
      proof = "proof " .. id .. " ",
      current = {},
    }
    knownTenants[id] = known
  end
  return known
end

local function settingsOf(known)
  if not known.settings then
    local read = redis.call("HMGET", known.settingsKey, "limit", "stopped", "revoked", "limits", "quota:active_runs")
    known.settings = {
      limit = read[1] or "", stopped = read[2] == "true", revoked = read[3] or "", limits = read[4] or "", activeMax = read[5] or "",
    }
  end
  return known.settings
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
