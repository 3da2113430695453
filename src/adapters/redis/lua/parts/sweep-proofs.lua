#!lua
--[[
  What the sweep does with letters, slots and keys.
  Reads: start, dueKey, nowMs, now, settings, found, terminal
  Sets: removeExpiredLetter, proveTenant (each takes the tenant and the subject)
]]
local function removeExpiredLetter(tenant, id)
  local documents = start .. "documents:" .. tenant .. ":deadLetter"
  local ids = start .. "document-ids:" .. tenant .. ":deadLetter"
  local savedAt = string.match(redis.call("HGET", documents, "meta:" .. id) or "", "^[0-9]+ ([0-9]+)")
  redis.call("ZCARD", ids)
  if not savedAt or savedAt + settings.deadLetterRetentionMs > nowMs then return end
  redis.call("HDEL", documents, "meta:" .. id, "body:" .. id)
  redis.call("ZREM", ids, id)
end

local provedMax = 100

-- Runs and their scores in turn, from the slot after "<score> <run>" on; if it is free by now, from its millisecond on.
local function slotsAfter(active, after)
  local score, runId = string.match(after, "^([0-9]+) (.+)$")
  local first = 0
  if score then
    local rank = redis.call("ZRANK", active, runId)
    first = rank and rank + 1 or redis.call("ZCOUNT", active, "-inf", "(" .. score)
  end
  return redis.call("ZRANGE", active, first, first + provedMax - 1, "WITHSCORES")
end

-- What is wrong with a slot: "slot_freed", or "reservation_restored" with the key's digest and what it should hold.
-- Where two live runs claim one key, the second sees what was planned for the first.
local function judgeSlot(tenant, runId, planned)
  local run = redis.call("HMGET", start .. "run:" .. tenant .. ":" .. runId, "status", "reservation", "fingerprint",
    "parent")
  if not run[1] or terminal[run[1]] or run[4] then return { repair = "slot_freed", runId = runId } end
  if not run[2] or not run[3] then return nil end
  local bound = "bound " .. runId .. " "
  local reservation = redis.call("GET", start .. "wf:run:idempotency:" .. tenant .. ":" .. run[2])
  reservation = planned[run[2]] or reservation or ""
  if string.sub(reservation, 1, #bound) == bound then return nil end
  planned[run[2]] = bound .. run[3]
  return { repair = "reservation_restored", runId = runId, digest = run[2], value = planned[run[2]] }
end

-- Forgets keys that have expired: Redis has dropped their records by itself, or is about to. Gives when the next one does.
local function trimKeys(tenant, keyed)
  local expired = redis.call("ZRANGE", keyed, "-inf", "(" .. now, "BYSCORE", "LIMIT", "0", provedMax)
  if #expired > 0 then
    redis.call("ZREM", keyed, unpack(expired))
    for index, digest in ipairs(expired) do
      expired[index] = start .. "wf:run:idempotency:" .. tenant .. ":" .. digest
    end
    redis.call("UNLINK", unpack(expired))
  end
  local soonest = redis.call("ZRANGE", keyed, 0, 0, "WITHSCORES")
  local atMs = tonumber(soonest[2])
  return atMs and atMs < 9007199254740991 and atMs or nil
end

-- Every slot must belong to a live root run, and every live run's key must point to it; both are repaired and reported.
-- The types of all keys are known before the first write: the reads that follow it cannot fail.
local function proveTenant(tenant)
  local active, keyed = start .. "active:" .. tenant, start .. "keyed:" .. tenant
  local tenantKey = start .. "tenant:" .. tenant
  local after = redis.call("HGET", tenantKey, "proofAfter") or ""
  local slots = slotsAfter(active, after)
  redis.call("ZCARD", keyed)
  local wrong, planned = {}, {}
  for index = 1, #slots, 2 do
    -- A run that cannot be read keeps its slot and does not stop the proof of the others.
    local readable, slot = pcall(judgeSlot, tenant, slots[index], planned)
    if readable then wrong[#wrong + 1] = slot end
  end
  found.work = found.work + #slots

  for _, slot in ipairs(wrong) do
    if slot.digest then
      redis.call("SET", start .. "wf:run:idempotency:" .. tenant .. ":" .. slot.digest, slot.value)
      redis.call("ZADD", keyed, "9007199254740991", slot.digest)
    else
      redis.call("ZREM", active, slot.runId)
    end
    found.repairs[#found.repairs + 1] = { tenant, slot.repair, slot.runId }
  end
  local nextKeyMs = trimKeys(tenant, keyed)
  local nextAfter = ""
  local soonMs = nowMs + settings.proveEveryMs
  if redis.call("ZCARD", active) > 0 then
    if #slots == 2 * provedMax then
      nextAfter = string.format("%.0f", slots[#slots]) .. " " .. slots[#slots - 1]
    end
    redis.call("ZADD", dueKey, string.format("%.0f", soonMs), "proof " .. tenant .. " ")
  elseif nextKeyMs then
    redis.call("ZADD", dueKey, string.format("%.0f", math.max(soonMs, nextKeyMs + 1)), "proof " .. tenant .. " ")
  end
  if nextAfter ~= "" then
    redis.call("HSET", tenantKey, "proofAfter", nextAfter)
  elseif after ~= "" then
    redis.call("HDEL", tenantKey, "proofAfter")
  end
end
