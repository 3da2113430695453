#!lua
--[[
  Reads a run's change from the arguments and decides what it writes; writes nothing. `write-change` writes it.
  The change: status, "ends" or "goes" and behind it what its event row says besides, the commit's word, the timeline's body, number of records, "jobs", "more", "tree" or "",
  fields and bodies of the records; then, after "jobs", the number of jobs and they themselves; after "more" or "tree"
  the numbers of jobs, jobs to void, timers to clear, timers, approvals, approvals to close, dead letters and jobs to release,
  and the groups themselves in this order:
  jobs of 7 (id, topic, tail of the text, token, - or held, worker or -, leaseMs, credential or ""), ids to void, ids to release,
  ids of timers, timers of 2 (id, dueAtMs),
  approvals of 7 (id, step, hash, payloadKey, requester, separateDuties, expiresAtMs or ""), closings of 2 (id, state),
  letters of 3 (id, reason, body); then, only after "tree", what `judge-tree` describes
  Reads: at (index of the change), start, tenant, runId, runKey, activeKey, dueKey, time, nowMs, now, version (a number),
  terminal, what `judge-tree` reads and sets (it has found that the tree has room), what `call-settings` sets, known (the
  tenant, see `tenants`), what `tenants` sets, useGates, useLimits, gated (the run as `gates` has it, or nil when it has no plan of its gates),
  reservation (the digest of the run's key, or false), what `places` reads and sets, cancelling (whether the run is being cancelled), reportedJob, decidedApproval (these two:
  what the entry of this very call settles, or nil), checkedJob, checkedText (the held job that it brings a verdict of, as it
  is then, or nil), fields (of the run: names and values; it adds to this list and
  to the next three), writes (commands), dueGone (members), dueAdded (scores and members)
  Sets: status, ends, news, nextVersion, fence, claims, bound, boundKey, proofAt, treeRows, limits (read by then if it matters),
  moves (what its end lets others do, see `grants`, or nil)
]]
local status, ends, news = ARGV[at], string.sub(ARGV[at + 1], 1, 4) == "ends", string.sub(ARGV[at + 1], 5)
local nextVersion = version == 0 and "1" or string.format("%.0f", version + 1)
local fence, claims = false, {}
local bound, boundKey, proofAt = false, false, false
local treeRows = {} -- Event rows that follow the change's own: type, subject, actor, detail.
local moves = nil
if ends then
  readQueues(known)
elseif ARGV[at + 5] ~= "" then
  checkSet(dueKey)
end
if ARGV[at + 5] ~= "" then
  local next = at + 6 + 2 * ARGV[at + 4]
  local jobs, voided, cleared, timers, approvals, closed, letters, released = ARGV[next], 0, 0, 0, 0, 0, "0", 0
  if ARGV[at + 5] == "jobs" then
    next = next + 1
  else
    jobs, voided, cleared, timers, approvals, closed, letters, released = unpack(ARGV, next, next + 7)
    next = next + 8
  end

  local firstVoided, gone = next + 7 * jobs, {}
  for first = firstVoided, firstVoided + voided - 1, 900 do
    local names = {}
    for index = first, math.min(firstVoided + voided - 1, first + 899) do
      names[#names + 1] = "job:" .. ARGV[index]
    end
    for index, text in ipairs(redis.call("HMGET", runKey, unpack(names))) do
      local jobId = ARGV[first + index - 1]
      if jobId == checkedJob then text = checkedText end
      local state = jobId ~= reportedJob and string.match(text or "", "^[^ ]+")
      if state == "held" or state == "ready" or state == "claimed" or state == "parked" then
        local behind = string.sub(text, #state + 1)
        if state == "parked" then
          local republished, budget, rest = string.match(behind, "^( [^ ]+ )([^ ]+)(.*)$")
          local _, budgets = useLimits()
          budgets.unpark(known, budget, jobId)
          behind = republished .. "-" .. rest
        end
        fields[#fields + 1] = names[index]
        fields[#fields + 1] = "voided" .. behind
        dueGone[#dueGone + 1] = (state == "claimed" and "claim " or "unclaimed ") .. tenant .. " " .. jobId
        gone[jobId] = true
      end
      if state == "claimed" then
        local worker, topic = string.match(text, "^" .. string.rep("[^ ]+ ", 3) .. "([^ ]+) "
          .. string.rep("[^ ]+ ", 6) .. "([^ ]+)")
        local _, pool, mark = readWorker(worker)
        if pool then writes[#writes + 1] = places.leave(topic, pool, jobId) end
        local charge = mark and redis.call("HGET", runKey, "charge:" .. jobId)
        if charge then
          local _, _, meters = useLimits()
          fields[#fields + 1] = "charge:" .. jobId
          fields[#fields + 1] = meters.settle(known, meters.parse(charge), "gone", {})
        end
      end
      if state == "ready" then
        local topic = string.match(text, "^" .. string.rep("[^ ]+ ", 10) .. "([^ ]+)")
        writes[#writes + 1] = { "ZREM", readyKeyOf(known, topic), jobId }
      end
    end
  end

  -- A job keeps the time of its creation and what the check said of it; it is named to workers anew, however long it was held.
  for index = firstVoided + voided, firstVoided + voided + released - 1 do
    local jobId = ARGV[index]
    local text = jobId == checkedJob and checkedText or redis.call("HGET", runKey, "job:" .. jobId) or ""
    local rest, createdAt, topic =
      string.match(text, "^held [^ ]+ (" .. string.rep("[^ ]+ ", 7) .. "([^ ]+) ([^ ]+) .*)$")
    if rest and not gone[jobId] then
      fields[#fields + 1] = "job:" .. jobId
      fields[#fields + 1] = "ready 0 " .. rest
      writes[#writes + 1] = { "ZADD", readyKeyOf(known, topic), createdAt, jobId }
      dueAdded[#dueAdded + 1] = unclaimedAt
      dueAdded[#dueAdded + 1] = "unclaimed " .. tenant .. " " .. jobId
    end
  end

  for _ = 1, jobs do
    local jobId, topic, tail, token, worker, leaseMs, credential = unpack(ARGV, next, next + 6)
    next = next + 7
    local held = token == "held"
    local born = token ~= "-" and not held and not cancelling
    if born then
      local settings = settingsOf(known)
      limits = settings.limits
      if settings.stopped or credential ~= "" and string.find(settings.revoked, " " .. credential .. " ", 1, true) then
        born = false
      end
    end
    if born then
      local pool
      pool, worker = places.counted(worker)
      if pool and places.refusal(topic, pool) then
        born = false
      elseif known.settings.budgets ~= "" or string.sub(tail, #topic + 2, #topic + 11) == '{"meter":"'
        or limits ~= "" and string.find(limits, " u:" .. topic .. "=", 1, true) then
        local _, _, meters = useLimits()
        local job = { topic = topic, spec = string.sub(tail, #topic + 2), id = jobId, createdAt = now }
        local cost = meters.judge(known, limits, job)
        if cost.refusal or cost.over then
          born = false
        else
          local charge
          charge, worker = meters.take(known, job, cost, token, worker)
          if charge then
            fields[#fields + 1] = "charge:" .. jobId
            fields[#fields + 1] = charge
          end
        end
      end
      if born and pool then writes[#writes + 1] = places.take(topic, pool, jobId) end
    end
    fields[#fields + 1] = "job:" .. jobId
    if born then
      local nowUs = time[1] * 1000000 + time[2]
      local last = fence or redis.call("GET", start .. "fence") or 0
      fence = string.format("%.0f", math.max(last + 1, nowUs))
      local expiresAt = string.format("%.0f", nowMs + leaseMs)
      fields[#fields + 1] = "claimed 0 " .. token .. " " .. worker .. " " .. fence .. " " .. now .. " " .. expiresAt
        .. " - - " .. now .. " " .. tail
      dueAdded[#dueAdded + 1] = expiresAt
      dueAdded[#dueAdded + 1] = "claim " .. tenant .. " " .. jobId
      claims[#claims + 1] = jobId
      claims[#claims + 1] = fence
      claims[#claims + 1] = leaseMs
    else
      fields[#fields + 1] = (held and "held" or "ready") .. " 0 - - - - - - - " .. now .. " " .. tail
      if not held then writes[#writes + 1] = { "ZADD", readyKeyOf(known, topic), now, jobId } end
      dueAdded[#dueAdded + 1] = unclaimedAt
      dueAdded[#dueAdded + 1] = "unclaimed " .. tenant .. " " .. jobId
    end
  end
  next = next + voided + released

  local timerStart = "timer " .. tenant .. " " .. runId .. " "
  for _ = 1, cleared do
    dueGone[#dueGone + 1] = timerStart .. ARGV[next]
    next = next + 1
  end
  for _ = 1, timers do
    dueAdded[#dueAdded + 1] = ARGV[next + 1]
    dueAdded[#dueAdded + 1] = timerStart .. ARGV[next]
    next = next + 2
  end

  local approvalStart = start .. "approval-record:" .. tenant .. ":"
  local asked = {}
  for _ = 1, approvals do
    local id, step, hash, payloadKey, requester, separateDuties, expiresAt = unpack(ARGV, next, next + 6)
    next = next + 7
    local key = approvalStart .. id
    redis.call("HLEN", key)
    checkSet(start .. "approvals:" .. tenant)
    asked[id] = true
    treeRows[#treeRows + 1] = { "approval_requested", id, "engine", "step " .. step }
    local row = {
      "HSET", key, "run", runId, "step", step, "hash", hash, "payloadKey", payloadKey, "requester", requester,
      "separateDuties", separateDuties, "state", "pending", "requestedAt", now,
    }
    if expiresAt ~= "" then
      row[#row + 1] = "expiresAt"
      row[#row + 1] = expiresAt
    end
    writes[#writes + 1] = { "DEL", key }
    writes[#writes + 1] = row
    writes[#writes + 1] = { "ZADD", start .. "approvals:" .. tenant, 0, id }
  end
  for _ = 1, closed do
    local id, state = ARGV[next], ARGV[next + 1]
    next = next + 2
    local pending = redis.call("HGET", approvalStart .. id, "state") == "pending" and id ~= decidedApproval
    if pending or asked[id] then
      writes[#writes + 1] = { "HSET", approvalStart .. id, "state", state, "decidedAt", now }
      asked[id] = nil
    end
  end

  if letters ~= "0" then
    --@include save-letter
    for _ = 1, letters do
      saveLetter(ARGV[next], ARGV[next + 1], ARGV[next + 2], letterMs)
      next = next + 3
    end
  end
end
-- What starting and cancelling children writes.
if treeAt then
  local depth = parent and string.match(parent, "([0-9]+)$") + 1 or 1
  if bornCount > 0 then checkSet(known.runsKey) end
  local index = treeAt + 2
  for _ = 1, ARGV[treeAt] do
    local id, workflow, definition, step, attempt, started, records = unpack(ARGV, index, index + 6)
    if born[id] == index then
      local childKey = start .. "run:" .. tenant .. ":" .. id
      local place = runId .. " " .. step .. " " .. attempt .. " " .. rootId .. " " .. string.format("%.0f", depth)
      writes[#writes + 1] = {
        "HSET", childKey, "workflow", workflow, "definition", definition, "actor", runId, "admittedAt", now,
        "status", "pending", "version", "1", "updatedAt", now, "parent", place,
        "row:1", '"' .. id .. '" ' .. now .. ' [{"type":"run_admitted"}]',
      }
      local last = index + 6 + 2 * records
      for first = index + 7, last, 900 do
        writes[#writes + 1] = { "HSET", childKey, unpack(ARGV, first, math.min(last, first + 899)) }
      end
      writes[#writes + 1] = { "ZADD", start .. "runs:" .. tenant, 0, id }
      writes[#writes + 1] = { "RPUSH", start .. "inbox:" .. tenant .. ":" .. id, started }
      dueAdded[#dueAdded + 1] = attentionAt
      dueAdded[#dueAdded + 1] = "attention " .. tenant .. " " .. id
      treeRows[#treeRows + 1] = { "run_admitted", id, runId, workflow }
    end
    index = index + 7 + 2 * records
  end
  if bornCount > 0 and rootSize then
    local size = string.format("%.0f", rootSize + bornCount)
    if parent then
      writes[#writes + 1] = { "HSET", start .. "run:" .. tenant .. ":" .. rootId, "treeSize", size }
    else
      fields[#fields + 1] = "treeSize"
      fields[#fields + 1] = size
    end
  end

  local entryId, reason, seen = "cancel:" .. runId .. ":" .. nextVersion, "parent run ended", {}
  local entry = 'cancel {"kind":"cancel","entryId":"' .. entryId .. '","actor":"' .. runId .. '","reason":"' .. reason
    .. '"}\n' .. entryId
  for cancelled = index, index + ARGV[treeAt + 1] - 1 do
    local id = ARGV[cancelled]
    local name = tenant .. ":" .. id
    local run = redis.call("HMGET", start .. "run:" .. name, "status", "cancel")
    local open = born[id] or run[1] and not terminal[run[1]] and not run[2]
    if open and not seen[id] then
      seen[id] = true
      redis.call("LLEN", start .. "inbox:" .. name)
      writes[#writes + 1] = { "HSET", start .. "run:" .. name, "cancel", entryId }
      writes[#writes + 1] = { "RPUSH", start .. "inbox:" .. name, entry }
      writes[#writes + 1] = { "ZADD", dueKey, "NX", attentionAt, "attention " .. tenant .. " " .. id }
      treeRows[#treeRows + 1] = { "cancel_requested", id, runId, reason }
    end
  end
end
if ends then
  checkSet(activeKey)
  -- An admission that ends its run at once has taken no place.
  if version > 0 and not parent and (gated or known.queues) then
    local _, _, grants = useGates()
    moves = { woken = {}, freed = gated and grants.heldBy(gated) or { "tenant" } }
    grants.check(known, moves.freed)
  end
  if parent then
    -- The parent of a child that ends learns of it, unless nobody would apply that any more.
    local parentId, step, attempt = string.match(parent, "^([^ ]+) ([^ ]+) ([^ ]+)")
    local parentStatus = redis.call("HGET", start .. "run:" .. tenant .. ":" .. parentId, "status")
    if parentStatus and not terminal[parentStatus] then
      local parentInbox, id = start .. "inbox:" .. tenant .. ":" .. parentId, "child:" .. runId
      redis.call("LLEN", parentInbox) -- Refuses a key of another type while nothing is written yet.
      writes[#writes + 1] = { "RPUSH", parentInbox,
        'child_ended {"kind":"child_ended","entryId":"' .. id .. '","runId":"' .. runId .. '","step":'
          .. string.gsub(step, "\1", " ") .. ',"attempt":' .. attempt .. ',"status":"' .. status .. '"}\n' .. id }
      writes[#writes + 1] = { "ZADD", dueKey, "NX", attentionAt,
        "attention " .. tenant .. " " .. parentId }
    end
  end
  if reservation then
    boundKey = known.reservationPrefix .. reservation
    local owner, fingerprint = string.match(redis.call("GET", boundKey) or "", "^bound ([^ ]+) ([^ ]+)")
    if owner == runId then
      bound = "bound " .. owner .. " " .. fingerprint .. " " .. status
      checkSet(known.keyedKey)
      readProof(known)
      proofAt = nowMs + (keepMs == "" and proveEveryMs or keepMs + 1)
    end
  end
end
