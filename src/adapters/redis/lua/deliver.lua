#!lua flags=allow-oom
--[[
  Appends one entry to a run's inbox after its own check-and-set and takes the run lock if it is free, or applies the
  change that was proposed with it.
  KEYS[1] start of all keys of the partition: which runs the items name is only known here
  KEYS[2] due: sorted set of "<kind> <tenant> <subject>" by time
  The arguments of the call are those that parts/perform-each.lua describes: settings, and items. Of an item ARGV has
  notAfterMs first,  ARGV[2] tenant  ARGV[3] runId  ARGV[4] credential's word or ""  ARGV[5] token  ARGV[6] instance  ARGV[7] ttlMs
  ARGV[8] "append" or "refuse"  ARGV[9] kind of the entry  ARGV[10] the entry as the inbox keeps it
  ARGV[11] expectedVersion of the proposal, and behind a space the word of the commit that made it, if known; "" without one
  ARGV[12] number of the entry's own arguments  ARGV[13] number of records wanted
  from ARGV[14] on the entry's own arguments:
  result: ARGV[14] jobId, ARGV[15] claim token's word, ARGV[16] entryId's word, ARGV[17] field and ARGV[18] payload,
  ARGV[19] letterId or "", ARGV[20] who retries that letter, ARGV[21] what it has used, each " <unit>=<amount>",
  ARGV[22] "handed_back" or "reported"
  decision: approvalId, entryId, hash, decision, decidedBy, ARGV[19] "because" or "", ARGV[20] reason,
  ARGV[21] detail of its event row, ARGV[22] who decided as JSON, or "", ARGV[23] "unless_separate" or ""
  cancel: entryId, actor, reason, ARGV[17] reason as JSON; timer: timerId
  retry: letterId, actor, retriesMax, ARGV[17] entryId as JSON, ARGV[18] actor as JSON, ARGV[19] entryId
  dispatch: jobId, token of the job's lock, its fence, what the word of the verdict begins with, and its middle, ARGV[19] key of that lock
  then the names of the fields of the records wanted; then the proposal's change, as parts/plan-change.lua describes it
  The run is a hash of the header's fields, and fields "record:<key>", "job:<id>", "row:<version>"; its lock is
  "<token> <instance> <fence>[ <owner>]", the memory of the last grant the same and " held|released|broken".
  Returns {"performed", now, answers}; an answer is
  {"delivered", now, freed, approval[, fence, values, entries]}, with the run if it is ours;
  {"applied", now, version, status, claims, freed, approval[, woken]}, {"run_busy", now, "instance", text}, {"too_late", now}, or why
  it is refused: {code, now[, approval]}; approval as HGETALL gives it, {} for all but decisions
]]
--@include now
local start, dueKey = KEYS[1], KEYS[2]
--@include call-settings
--@include tenants
--@include use-limits
--@include terminal
local runningKey, limits
--@include worker-word
--@include places
--@include use-gates

local function perform(ARGV)
  local tenant, runId, credential, token, instance = ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
  local ttlMs, whenBusy, kind, entry, base = ARGV[7], ARGV[8], ARGV[9], ARGV[10], ARGV[11]
  local wantedFirst = 14 + ARGV[12]
  local wantedLast = wantedFirst - 1 + ARGV[13]
  local at, subject, known = wantedLast + 1, ARGV[14], tenantOf(tenant)
  local runKey, inboxKey, activeKey, eventsKey = known.runPrefix .. runId, known.inboxPrefix .. runId, known.activeKey, known.eventsKey
  local lockKey, grantKey = start .. "wf:run:lock:" .. tenant .. ":" .. runId, start .. "grant:run:" .. tenant .. ":" .. runId
  local fenceKey = start .. "fence"
  local trailKey, approvalKey = start .. "trail:" .. tenant, start .. "approval-record:" .. tenant .. ":" .. subject
  runningKey, limits, places.changes = known.runningKey, nil, {}
  limitsInUse = nil

  local function approvalNow()
    return kind == "decision" and redis.call("HGETALL", approvalKey) or {}
  end

  local revokedCaller = false
  if credential ~= "" then
    revokedCaller = string.find(settingsOf(known).revoked, " " .. credential .. " ", 1, true)
  end
  local versionText, madeBy = string.match(base, "^([^ ]*) ?(.*)$")
  local version = tonumber(versionText)
  local proposed = version and string.format("%.0f", version + 1) or "-"
  local run = redis.call("HMGET", runKey,
    "status", "version", "cancel", "drains", "reservation", "row:" .. proposed, "job:" .. subject, "parent", "treeSize",
    "row:" .. versionText, "drainsSince", "gates", "place")
  if not run[1] then return { revokedCaller and "unauthenticated" or "run_not_found", now } end
  --@include add-audited
  -- Where the job of a result runs, or ran, if it is counted, and its charge: only then is there a bracket in front of a space.
  local ran, freed, charge = nil, "", nil
  if kind == "result" and string.find(run[7] or "", "] ", 1, true) then
    local claimToken, worker, report, topic = string.match(run[7], "^[^ ]+ [^ ]+ ([^ ]+) ([^ ]+) "
      .. string.rep("[^ ]+ ", 3) .. "([^ ]+) [^ ]+ [^ ]+ ([^ ]+)")
    local _, pool, mark = readWorker(worker)
    if mark and claimToken == ARGV[15] then charge = redis.call("HGET", runKey, "charge:" .. subject) end
    if pool and claimToken == ARGV[15] then
      ran = { topic, pool }
      if report == ARGV[16] then freed = topic .. " " .. pool end
    end
  end
  if version and run[6] then
    local commit = ARGV[at + 2] .. " "
    if string.sub(run[6], 1, #commit) == commit then
      --@include granted-claims
      return { "applied", now, proposed, run[1], granted, freed, approvalNow() }
    end
  end
  local lock = redis.call("GET", lockKey)
  local holder, holderInstance, heldFence = string.match(lock or "", "^([^ ]+) ([^ ]+) ([^ ]+)")
  -- Only an earlier try of this very call can have taken the lock with its token.
  if holder == token then
    redis.call("LLEN", inboxKey)
    --@include owned-run
    return { "delivered", now, freed, approvalNow(), heldFence, values, entries }
  end

  local ended, gated = terminal[run[1]], run[12] and useGates().parse(runId, run[12], run[13]) or nil
  local fields, writes, dueGone, dueAdded = {}, {}, {}, {}
  local rows = {} -- Audited rows: type, subject, actor, detail.
  local reportedJob, decidedApproval, checkedJob, checkedText, refusal, again, full, waitingRetry
  if kind == "result" then
    local state, claim, claimToken, report, rest = string.match(run[7] or "",
      "^([^ ]+) ([^ ]+ ([^ ]+) [^ ]+ [^ ]+ [^ ]+ [^ ]+) ([^ ]+) (.*)$")
    local holds = claimToken == ARGV[15]
    if holds and report == ARGV[16] then again = true
    elseif holds and state == "reported" then refusal = "duplicate"
    elseif ended then refusal = "run_ended"
    elseif state ~= "claimed" or not holds then refusal = "stale_claim"
    else
      reportedJob = subject
      dueGone[1] = "claim " .. tenant .. " " .. subject
      fields[1], fields[2] = ARGV[17], ARGV[18]
      fields[3], fields[4] = "job:" .. subject, "reported " .. claim .. " " .. ARGV[16] .. " " .. rest
      if ran then
        writes[1] = places.leave(ran[1], ran[2], subject)
        freed = ran[1] .. " " .. ran[2]
      end
      if ARGV[19] ~= "" then
        local lettersKey, letter = start .. "documents:" .. tenant .. ":deadLetter", "meta:" .. ARGV[19]
        local rest = string.match(redis.call("HGET", lettersKey, letter) or "", "^[0-9]+( .*)$")
        if not rest then refusal = "dead_letter_not_found" end
        rows[1] = { "letter_retried", runId, ARGV[20], ARGV[19] }
        writes[#writes + 1] = { "HSET", lettersKey, letter, "2" .. (rest or "") }
      end
    end
  elseif kind == "decision" then
    local approval = redis.call("HMGET", approvalKey,
      "state", "decisionId", "hash", "expiresAt", "separateDuties", "requester", "run")
    local own = approval[5] == "true" and approval[6] == ARGV[18] and ARGV[17] == "approved"
    if approval[7] ~= runId then refusal = "approval_not_found"
    elseif approval[2] == ARGV[15] then again = true
    elseif approval[1] ~= "pending" then refusal = "approval_already_decided"
    elseif approval[5] == "true" and ARGV[23] ~= "" then refusal = "duties_separate"
    elseif approval[3] ~= ARGV[16] then refusal = "approval_changed"
    elseif approval[4] and nowMs >= tonumber(approval[4]) then refusal = "approval_expired"
    elseif own then refusal = "self_approval" end
    if refusal and refusal ~= "approval_not_found" and not revokedCaller then
      return { refusal, now, approvalNow() }
    end
    if ended and not again and not refusal then refusal = "run_ended" end
    decidedApproval = subject
    rows[1] = { "approval_decided", subject, ARGV[18], ARGV[21] }
    writes[1] = { "HSET", approvalKey, "state", ARGV[17], "decidedAt", now, "decidedBy", ARGV[18], "decisionId", ARGV[15] }
    if ARGV[19] ~= "" then writes[2] = { "HSET", approvalKey, "reason", ARGV[20] } end
    if ARGV[22] ~= "" then writes[#writes + 1] = { "HSET", approvalKey, "decider", ARGV[22] } end
  elseif kind == "cancel" then
    if run[3] == subject then again = true
    elseif ended then refusal = "run_ended"
    elseif run[3] then refusal = "already_cancelling" end
    fields[1], fields[2] = "cancel", subject
    rows[1] = { "cancel_requested", runId, ARGV[15], ARGV[16] }
  elseif kind == "dispatch" then
    local head, said, tail = string.match(run[7] or "", "^(" .. string.rep("[^ ]+ ", 8) .. ")([^ ]+)( .*)$")
    local state, verdict = string.match(head or "", "^[^ ]+"), string.match(said or "", '^%["(%a+)"')
    if string.sub(said or "", 1, #ARGV[17]) == ARGV[17] then again = true
    elseif ended then refusal = "run_ended"
    elseif state ~= "held" then refusal = "job_not_held"
    elseif verdict and verdict ~= "hold" then refusal = "duplicate"
    else
      local lockToken, lockFence = string.match(redis.call("GET", ARGV[19]) or "", "^([^ ]+) [^ ]+ ([^ ]+)")
      if lockToken ~= ARGV[15] or lockFence ~= ARGV[16] then refusal = "stale_fence" end
      checkedJob, checkedText = subject, head .. ARGV[17] .. ARGV[18] .. "," .. now .. "]" .. tail
      fields[1], fields[2] = "job:" .. subject, checkedText
    end
  elseif kind == "retry" then
    local lettersKey, actor = start .. "documents:" .. tenant .. ":deadLetter", ARGV[15]
    local revision, rest = string.match(redis.call("HGET", lettersKey, "meta:" .. subject) or "", "^([0-9]+)( .*)$")
    if not revision then refusal = "dead_letter_not_found"
    elseif revision ~= "1" then again = true
    elseif run[1] == "queued" then refusal = "dead_letter_not_retryable"
    else
      if not ended then rows[1] = { "letter_retried", runId, actor, subject } end
      local retries = redis.call("HGET", runKey, "retries") or ""
      --@include waiting-retries
      waitingRetry = function(place) return retries .. retryText(place, subject) end
      full = #waitingRetries >= tonumber(ARGV[16])
    end
    if ended and not refusal and not again then
      --@include reopen-runs
    end
    writes[#writes + 1] = { "HSET", lettersKey, "meta:" .. subject, "2" .. (rest or "") }
  else
    local member = "timer " .. tenant .. " " .. runId .. " " .. subject
    local dueAt = redis.call("ZSCORE", dueKey, member)
    if ended then refusal = "run_ended"
    elseif not dueAt or tonumber(dueAt) > nowMs then refusal = "timer_not_due" end
    dueGone[1] = member
  end
  -- What had its effect before the key was revoked is still answered as it was.
  if revokedCaller and not again then refusal = "unauthenticated" end
  if refusal then
    local isGone = charge and (string.sub(run[7], 1, 5) == "lost " or string.sub(run[7], 1, 7) == "voided ")
    if isGone and refusal ~= "unauthenticated" then
      -- The report comes too late for the run, and says what was used all the same: once.
      local _, _, meters = useLimits()
      local settled, commands = meters.parse(charge), { { "HDEL", runKey, "charge:" .. subject } }
      meters.settle(known, settled, ARGV[22], meters.amountsOf(ARGV[21]))
      limitsInUse.plan(known, commands)
      limitsInUse.tell(known)
      for _, command in ipairs(commands) do redis.call(unpack(command)) end
    end
    return { refusal, now }
  end
  if again and string.find(run[13] or "", "because", 1, true) then
    return { "applied", now, run[2], run[1], {}, freed, approvalNow() }
  end
  if again then return { "delivered", now, freed, approvalNow() } end
  if full or (lock and whenBusy == "refuse") then return { "run_busy", now, "instance", holderInstance or "" } end

  if charge then
    local _, _, meters = useLimits()
    meters.settle(known, meters.parse(charge), ARGV[22], meters.amountsOf(ARGV[21]))
    writes[#writes + 1] = { "HDEL", runKey, "charge:" .. subject }
  end
  local function addRows()
    for _, row in ipairs(rows) do addAudited(unpack(row)) end
    if limitsInUse then limitsInUse.tell(known) end
  end

  local waiting = redis.call("LLEN", inboxKey)
  readQueues(known)
  if kind == "cancel" and gated and useGates().isQueued(gated) then
    -- It has not begun: nobody has to apply anything.
    local _, _, grants = useGates()
    local moves = { woken = {}, freed = {} }
    gated.version, gated.reservation = tonumber(run[2]), run[5]
    grants.check(known, grants.heldBy(gated))
    grants.endQueued(known, gated, moves, {
      status = "cancelled", reason = ARGV[16], timeline = '[{"type":"run_cancelled","reason":' .. ARGV[17] .. "}]",
      before = function()
        addRows()
        redis.call("HSET", runKey, "cancel", subject)
      end,
    })
    grants.handOn(known, moves)
    return { "applied", now, string.format("%.0f", gated.version), gated.status, {}, freed, {}, moves.woken }
  end
  local parent, treeSize = run[8], run[9]
  -- What was decided for a run that has ended says nothing about the one that is opened again.
  -- Nor what was decided after a commit that a failover has taken back, whose number another one has now.
  local isSameCommit = madeBy == "" or string.sub(run[10] or "", 1, #madeBy + 1) == madeBy .. " "
  if version and not lock and waiting == 0 and run[2] == versionText and isSameCommit and not ended and run[1] ~= "queued" then
    --@include judge-tree
    if treeFits then
      local reservation = run[5]
      local cancelling = run[3] or kind == "cancel"
      if run[4] and run[4] ~= "0" then
        fields[#fields + 1] = "drains"
        fields[#fields + 1] = "0"
      end
      --@include plan-change
      if limitsInUse then limitsInUse.plan(known, writes) end
      -- The rows go first: they are the only writes that Redis can refuse, and before them nothing has happened.
      addRows()
      redis.call("XADD", eventsKey, "MAXLEN", "~", eventsMax, "0-*",
        "at", now, "type", ends and "run_ended" or "run_changed", "subject", runId, "actor", "engine",
        "detail", (ends and status or nextVersion .. " " .. status) .. news)
      --@include add-tree-rows
      --@include write-change
      return { "applied", now, nextVersion, status, claims, freed, approvalNow(), moves and moves.woken }
    end
  end

  if waitingRetry then
    fields[#fields + 1] = "retries"
    fields[#fields + 1] = waitingRetry(waiting + 1)
  end
  local drains, drainsSince = run[4], run[11]
  if limitsInUse then limitsInUse.plan(known, writes) end
  if not lock then
    --@include plan-take
    addRows()
    if dueGone[1] then redis.call("ZREM", dueKey, unpack(dueGone)) end
    redis.call("RPUSH", inboxKey, entry)
    --@include write-take
    --@include owned-run
    return { "delivered", now, freed, approvalNow(), takenFence, values, entries }
  end
  addRows()
  for _, write in ipairs(writes) do redis.call(unpack(write)) end
  if fields[1] then redis.call("HSET", runKey, unpack(fields)) end
  if dueGone[1] then redis.call("ZREM", dueKey, unpack(dueGone)) end
  redis.call("RPUSH", inboxKey, entry)
  redis.call("ZADD", dueKey, "NX", attentionAt, "attention " .. tenant .. " " .. runId)
  return { "delivered", now, freed, approvalNow() }
end
--@include perform-each
return { "performed", now, answers }
