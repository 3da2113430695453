#!lua
--[[
  Whether a run that has ended may be opened again, and with it the runs above it that ended because of it; and what that
  writes: it takes back what their ends did, and each step that started one of them waits for it again. Writes nothing.
  ARGV[17] and ARGV[18] are the entry's id and the actor as JSON, ARGV[19] is the entry's id.
  Reads: start, tenant, known (the tenant, see `tenants`), what `tenants` sets, runId, subject (the letter), actor, proveEveryMs,
  attentionAt, activeKey, useGates, dueKey, terminal, nowMs, writes, dueGone, rows (it adds to these three lists)
  Sets: refusal, full (a run above goes on and has something else to apply first), above (the run above that goes on, if it has gates)
]]
local settings = settingsOf(known)
local opened, name, child = {}, runId, nil
while not refusal do
  local key = start .. "run:" .. tenant .. ":" .. name
  local past = redis.call("HMGET", key, "status", "removing", "parent", "cancel", "admittedAt", "reservation", "gates", "place")
  local status, failed = past[1], past[1] == "failed" or past[1] == "timed_out"
  if child and status then
    local inbox = start .. "inbox:" .. tenant .. ":" .. name
    local step, attempt = string.match(child.parent, '^[^ ]+ "([^ ]*)" ([^ ]+)')
    child.waits = { "RPUSH", inbox, 'retry {"kind":"retry","entryId":' .. ARGV[17]
      .. ',"jobId":"' .. name .. ":" .. string.gsub(step, "\1", " ") .. "@" .. attempt .. '","actor":' .. ARGV[18]
      .. ',"childRunId":"' .. child.name .. '"}\n' .. ARGV[19] }
    child.attention = { "ZADD", dueKey, "NX", attentionAt, "attention " .. tenant .. " " .. name }
    local waits = redis.call("LLEN", inbox)
    if not terminal[status] then
      if settings.stopped then refusal = "tenant_stopped"
      elseif past[4] then refusal = "dead_letter_not_retryable"
      -- What waits there may end it, and the entry of this retry with it.
      else
        full = full or waits > 0 or redis.call("GET", start .. "wf:run:lock:" .. tenant .. ":" .. name)
        above = past[7] and useGates().parse(name, past[7], past[8] or "0") or nil
      end
      break
    end
  end
  if past[2] then refusal = child and "dead_letter_not_retryable" or "run_not_found"
  -- One that never began has nothing to go on with.
  elseif not failed or past[4] or string.find(past[8] or "", "because", 1, true) then refusal = "dead_letter_not_retryable" end
  opened[#opened + 1] = { name = name, key = key, parent = past[3], admittedAt = past[5], reservation = past[6] }
  child = opened[#opened]
  if not past[3] then
    if not refusal and settings.stopped then refusal = "tenant_stopped"
    elseif not refusal then
      -- It takes all its places at once, or none.
      local gates = useGates()
      child.gated = past[7] and gates.parse(name, past[7], "0") or nil
      for _, each in ipairs(child.gated and child.gated.gates or { { id = "tenant" } }) do
        local gate = gates.of(known, each.id)
        gates.check(known, gate)
        if not gates.isOpen(known, gate) then refusal = "max_concurrent_runs_reached" end
      end
    end
    break
  end
  name = string.match(past[3], "^[^ ]+")
end
if not refusal then
  checkSet(activeKey)
  for _, run in ipairs(opened) do
    rows[#rows + 1] = { "run_reopened", run.name, actor, subject }
    dueGone[#dueGone + 1] = "retention " .. tenant .. " " .. run.name
    writes[#writes + 1] = { "HDEL", run.key, "endedAt" }
    writes[#writes + 1] = { "HSET", run.key, "status", "running" }
    if run.waits then
      writes[#writes + 1] = run.waits
      writes[#writes + 1] = run.attention
    else
      for _, each in ipairs(run.gated and run.gated.gates or {}) do
        if each.id ~= "tenant" then
          writes[#writes + 1] = { "ZADD", useGates().of(known, each.id).placesKey, run.gated.asked, run.name }
          writes[#writes + 1] = { "ZADD", known.heldGatesKey, 0, each.id }
        end
      end
      if run.gated then writes[#writes + 1] = { "HSET", run.key, "place", string.format("%.0f", #run.gated.gates) } end
      writes[#writes + 1] = { "ZADD", activeKey, run.admittedAt, run.name }
      writes[#writes + 1] = { "ZADD", dueKey, "LT", string.format("%.0f", nowMs + proveEveryMs), "proof " .. tenant .. " " }
    end
    if run.reservation then
      -- The key is the run's again for as long as it is open, unless it has expired and may be another run's by now.
      local reservationKey = start .. "wf:run:idempotency:" .. tenant .. ":" .. run.reservation
      local owner, fingerprint = string.match(redis.call("GET", reservationKey) or "", "^bound ([^ ]+) ([^ ]+)")
      if owner == run.name then
        checkSet(known.keyedKey)
        writes[#writes + 1] = { "SET", reservationKey, "bound " .. run.name .. " " .. fingerprint }
        writes[#writes + 1] = { "ZADD", known.keyedKey, "9007199254740991", run.reservation }
      else
        writes[#writes + 1] = { "HDEL", run.key, "reservation", "fingerprint" }
      end
    end
  end
end
