#!lua
--[[
  Whether a run that has ended may be opened again, and what that writes: it takes back what the run's end did. Writes
  nothing.
  Reads: runKey, activeKey, KEYS[1] (the tenant), start, tenant, runId, run (status first), proveEveryMs, nowMs, actor, subject (the
  letter's id), dueKey, fields, writes, dueGone (it adds to these three lists)
  Sets: refusal (if it may not), event
]]
local past = redis.call("HMGET", runKey, "removing", "parent", "cancel", "admittedAt", "reservation")
local settings = redis.call("HMGET", KEYS[1], "stopped", "limit")
local limit = tonumber(settings[2] or "")
local failed = run[1] == "failed" or run[1] == "timed_out"
if past[1] then refusal = "run_not_found"
elseif not failed or past[2] or past[3] then refusal = "dead_letter_not_retryable"
elseif settings[1] == "true" then refusal = "tenant_stopped"
elseif limit and redis.call("ZCARD", activeKey) >= limit then refusal = "max_concurrent_runs_reached"
else
  redis.call("ZCARD", activeKey) -- Refuses a key of another type while nothing is written yet.
  event = { "run_reopened", runId, actor, subject }
  fields[#fields + 1] = "status"
  fields[#fields + 1] = "running"
  dueGone[#dueGone + 1] = "retention " .. tenant .. " " .. runId
  writes[#writes + 1] = { "HDEL", runKey, "endedAt" }
  writes[#writes + 1] = { "ZADD", activeKey, past[4], runId }
  writes[#writes + 1] = { "ZADD", dueKey, "LT", string.format("%.0f", nowMs + proveEveryMs), "proof " .. tenant .. " " }
  if past[5] then
    -- The key is the run's again for as long as it is open, unless it has expired and may be another run's by now.
    local reservationKey = start .. "wf:run:idempotency:" .. tenant .. ":" .. past[5]
    local owner, fingerprint = string.match(redis.call("GET", reservationKey) or "", "^bound ([^ ]+) ([^ ]+)")
    if owner == runId then
      local keyedKey = start .. "keyed:" .. tenant
      redis.call("ZCARD", keyedKey)
      writes[#writes + 1] = { "SET", reservationKey, "bound " .. runId .. " " .. fingerprint }
      writes[#writes + 1] = { "ZADD", keyedKey, "9007199254740991", past[5] }
    else
      writes[#writes + 1] = { "HDEL", runKey, "reservation", "fingerprint" }
    end
  end
end
