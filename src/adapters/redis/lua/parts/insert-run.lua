#!lua
--[[
  The end of both admit and createRun: makes room for the idempotency key, then writes the run with its first commit.
  Reads: at (index of the change, see plan-change), start, tenant, runId, runKey, activeKey, runsKey, eventsKey, dueKey,
  reservationKey and keyedKey (false without a key), held (the reservation now, or false), digest, fingerprint, quota,
  active, workflow, actor, definition, started (the entry that starts the run, or ""), attentionMs, eventsMax, stopped, revoked, limits,
  retake (nil, or a list of commands that take the guard's lock again), time, nowMs, now
  Sets: status, claims, active (as it is then), keysKept ("" without a key), early ("1" when a key gave way before its time)
]]
local version, reservation, dueChecked, reportedJob, decidedApproval, cancelling = 0, false, true, nil, nil, false
local checkedJob, checkedText = nil, nil
local parent, treeSize = false, false
local fields = { "workflow", workflow, "definition", definition, "actor", actor, "admittedAt", now }
local writes, dueGone, dueAdded = retake or {}, {}, {}
-- Most admissions find the tenant's proof planned already.
local planned = redis.call("ZSCORE", dueKey, "proof " .. tenant .. " ")
local evicted, oldest, early, keysKept = false, nil, "", ""
if reservationKey then
  if redis.call("ZCARD", keyedKey) >= tonumber(quota) and not held then
    local first = redis.call("ZRANGE", keyedKey, 0, 0, "WITHSCORES")
    if not first[1] or first[2] == "9007199254740991" then
      return { "idempotency_quota_reached", now, "quota", tonumber(quota) }
    end
    if not redis.call("ZSCORE", keyedKey, digest) then
      oldest = first[1]
      if tonumber(first[2]) >= nowMs then early = "1" end
      evicted = start .. "wf:run:idempotency:" .. tenant .. ":" .. oldest
      redis.call("GET", evicted) -- Refuses a key of another type while nothing is written yet.
    end
  end
end
local runningKey = start .. "running:" .. tenant
--@include worker-word
--@include places
--@include judge-tree
--@include terminal
--@include plan-change
local inboxKey = start .. "inbox:" .. tenant .. ":" .. runId
if started ~= "" then redis.call("LLEN", inboxKey) end
redis.call("ZCARD", runsKey)
local soon = nowMs + ARGV[at + 9]
if reservationKey then
  reservation, boundKey, bound = digest, reservationKey, "bound " .. runId .. " " .. fingerprint
  if ends then bound = bound .. " " .. status end
  if keepMs ~= "" then soon = math.min(soon, nowMs + keepMs + 1) end
  fields[#fields + 1] = "reservation"
  fields[#fields + 1] = digest
  fields[#fields + 1] = "fingerprint"
  fields[#fields + 1] = fingerprint
end
if not planned or tonumber(planned) > soon then
  dueAdded[#dueAdded + 1] = string.format("%.0f", soon)
  dueAdded[#dueAdded + 1] = "proof " .. tenant .. " "
end

-- The row goes first: it is the only write that Redis can refuse, and before it nothing has happened. The stream counts.
redis.call("XADD", eventsKey, "MAXLEN", "~", eventsMax, "0-*",
  "at", now, "type", "run_admitted", "subject", runId, "actor", actor, "detail", workflow)
--@include add-tree-rows
if evicted then
  redis.call("DEL", evicted)
  redis.call("ZREM", keyedKey, oldest)
end
--@include write-change
if reservationKey then keysKept = redis.call("ZCARD", keyedKey) end
redis.call("ZADD", runsKey, 0, runId)
if not ends then
  redis.call("ZADD", activeKey, now, runId)
  active = active + 1
end
if started ~= "" then
  redis.call("RPUSH", inboxKey, started)
  redis.call("ZADD", dueKey, string.format("%.0f", nowMs + attentionMs), "attention " .. tenant .. " " .. runId)
end
