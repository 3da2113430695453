#!lua
--[[
  Whether a run that starts may take or wait for its places; writes nothing. One that is to begin with this very operation,
  or under a lock, cannot wait.
  The plan is "<queueMax> <deadlineMs> <priority> <fairness key> <weight> <agingMs> <actor's word>" and " <gate> <at limit>" of each
  gate in the order of places, or "" for a run that takes the tenant's slot alone.
  Reads: plan, known (the tenant, see tenants), settings (of it), runId, actor, workflow, mayWait, nowMs, now, queuedMax, useGates,
  rated (the rate for which it waits first, see judge-rates, or nil)
  Sets: gated (the run, see gates, or nil without a plan), refused (the answer, or nil), waitsAt (the gate where it waits, or nil),
  waitingInAll (how many runs of the tenant wait)
]]
local gated, waitsAt = nil, nil
local waitingInAll = known.queues and redis.call("ZCARD", known.queuedKey) or 0
if plan == "" then
  local limit = tonumber(settings.limit)
  local isClosed = limit and known.active >= limit
  if limit and not isClosed and known.queues then
    local gates = useGates()
    isClosed = gates.isWaitedAt(known, gates.of(known, "tenant"))
  end
  if isClosed then refused = { "max_concurrent_runs_reached", now, "limit", limit, "active", known.active } end
else
  local gates, queues = useGates()
  local queueMax, deadlineMs, order, actorWord, rest = string.match(plan, "^([^ ]+) ([^ ]+) ([^ ]+ [^ ]+ [^ ]+ [^ ]+) ([^ ]+)(.*)$")
  local deadline = string.format("%.0f", nowMs + deadlineMs)
  local text = order .. " " .. now .. " " .. deadline .. " " .. actorWord .. rest
  gated = gates.parse(runId, text, "0")
  gated.text = text
  gated.actor, gated.workflow = actor, workflow
  local closedAt
  for _, each in ipairs(gated.gates) do
    local gate = gates.of(known, each.id)
    gates.check(known, gate)
    if not gates.isOpen(known, gate) then
      closedAt = closedAt or each
      if not refused and (each.atLimit == "reject" or not mayWait) then
        refused = { "max_concurrent_runs_reached", now, "limit", gates.limitOf(known, gate), "active", gates.activeIn(known, gate) }
        if not gate.isTenants then refused[7], refused[8] = "gate", gate.id end
      end
    end
  end
  if closedAt and not refused then
    waitsAt = gates.of(known, closedAt.id)
    local onlyNewest = closedAt.atLimit == "cancel_in_progress" or closedAt.atLimit == "replace_queued"
    gates.checkLevel(waitsAt, onlyNewest and 10 or gated.priority)
    local waiting = queues.waitingAt(waitsAt, 0)
    local replaced = onlyNewest and waiting or 0
    if waiting - replaced >= tonumber(queueMax) then
      refused = { "queue_full", now, "limit", tonumber(queueMax), "gate", waitsAt.id }
    elseif waitingInAll - replaced >= queuedMax then
      refused = { "queue_full", now, "limit", queuedMax }
    end
  end
end
if rated and not refused and waitingInAll >= queuedMax then refused = { "queue_full", now, "limit", queuedMax } end
