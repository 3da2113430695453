#!lua flags=allow-oom
--[[
  Appends one entry to a run's inbox after its own check-and-set and takes the run lock if it is free, or applies the
  change that was proposed with it.
  KEYS[1] tenant: hash with limit, stopped, revoked ("" means not set)
  KEYS[2] run: hash of the header's fields, and fields "record:<key>", "job:<id>", "row:<version>"
  KEYS[3] active: sorted set of the runs that hold the tenant's slots, by the time of their admission
  KEYS[4] events: stream with ids "0-<sequence>"
  KEYS[5] run lock: "<token> <instance> <fence>[ <owner>]", expires with the grant
  KEYS[6] grant: "<token> <instance> <fence>[ <owner>] held|released|broken", the memory of the last grant
  KEYS[7] fence: the partition's last fence, never expires
  KEYS[8] due: sorted set of "<kind> <tenant> <subject>" by time
  KEYS[9] inbox: list of the entries that wait, "<kind> <json>", a line feed and the id
  KEYS[10] start of all keys of the partition: most of what a change writes is only known here
  KEYS[11] trail: stream of the audit records, with ids "0-<sequence>"
  KEYS[12] for a decision the approval: hash of run, state, hash, requester and the rest of what it says; for a verdict of the
           dispatch check the job's lock: "<token> <instance> <fence>[ <owner>]"; absent for all others
  ARGV[2] tenant  ARGV[3] runId  ARGV[4] credential's word or ""  ARGV[5] token  ARGV[6] instance
  ARGV[7] ttlMs  ARGV[8] grantMemoryMs  ARGV[9] "append" or "refuse"  ARGV[10] eventsMax  ARGV[11] attentionMs
  ARGV[12] "<drainsMax> <setAsideAfterMs>"  ARGV[13] entriesMax  ARGV[14] deadLetterRetentionMs  ARGV[15] kind of the entry
  ARGV[16] the entry as the inbox keeps it
  ARGV[17] expectedVersion of the proposal, and behind a space the word of the commit that made it, if known; "" without one
  result: ARGV[18] jobId, ARGV[19] claim token's word, ARGV[20] entryId's word, ARGV[21] field and ARGV[22] payload,
  ARGV[23] letterId or "", ARGV[24] who retries that letter
  decision: approvalId, entryId, hash, decision, decidedBy, ARGV[23] "because" or "", ARGV[24] reason,
  ARGV[25] detail of its event row, ARGV[26] who decided as JSON, or "", ARGV[27] "unless_separate" or ""
  cancel: entryId, actor, reason; timer: timerId
  retry: letterId, actor, proveEveryMs, retriesMax, entryId as JSON, actor as JSON, entryId
  dispatch: jobId, token of the job's lock, its fence, what the word of the verdict begins with, and its middle
  ARGV[28] trailMax  ARGV[29] number of fields wanted
  ARGV from 30 on: the names of the run's fields wanted, header fields first; then the proposal's change, as
  parts/plan-change.lua describes it
  Returns {"delivered", now, freed, approval[, fence, values, entries]}, with the run if it is ours;
  {"applied", now, version, status, claims, freed, approval}, {"run_busy", now, "instance", text}, {"too_late", now}, or why
  it is refused: {code, now[, approval]}; approval as HGETALL gives it, {} for all but decisions
]]
--@include clock

local runKey, activeKey, eventsKey, lockKey, grantKey = KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local fenceKey, dueKey, inboxKey, start = KEYS[7], KEYS[8], KEYS[9], KEYS[10]
local tenant, runId, token, instance, ttlMs, grantMemoryMs = ARGV[2], ARGV[3], ARGV[5], ARGV[6], ARGV[7], ARGV[8]
local eventsMax, attentionMs, drainsMax, entriesMax, letterMs = ARGV[10], ARGV[11], ARGV[12], ARGV[13], ARGV[14]
local trailKey, trailMax = KEYS[11], ARGV[28]
local wantedFirst, wantedLast = 30, 29 + ARGV[29]
local at = wantedLast + 1
local kind, subject, entry = ARGV[15], ARGV[18], ARGV[16]

local function approvalNow()
  return kind == "decision" and redis.call("HGETALL", KEYS[12]) or {}
end

local revokedCaller = false
if ARGV[4] ~= "" then
  revokedCaller = string.find(redis.call("HGET", KEYS[1], "revoked") or "", " " .. ARGV[4] .. " ", 1, true)
end
local versionText, madeBy = string.match(ARGV[17], "^([^ ]*) ?(.*)$")
local version = tonumber(versionText)
local proposed = version and string.format("%.0f", version + 1) or "-"
local run = redis.call("HMGET", runKey,
  "status", "version", "cancel", "drains", "reservation", "row:" .. proposed, "job:" .. subject, "parent", "treeSize",
  "row:" .. versionText, "drainsSince")
if not run[1] then return { revokedCaller and "unauthenticated" or "run_not_found", now } end
local runningKey, limits = start .. "running:" .. tenant, nil
--@include add-audited
--@include worker-word
--@include places
-- Where the job of a result runs, or ran, if it is counted: only then is there a bracket in front of a space.
local ran, freed = nil, ""
if kind == "result" and string.find(run[7] or "", '"] ', 1, true) then
  local claimToken, worker, report, topic = string.match(run[7], "^[^ ]+ [^ ]+ ([^ ]+) ([^ ]+) "
    .. string.rep("[^ ]+ ", 3) .. "([^ ]+) [^ ]+ [^ ]+ ([^ ]+)")
  local _, pool = readWorker(worker)
  if pool and claimToken == ARGV[19] then
    ran = { topic, pool }
    if report == ARGV[20] then freed = topic .. " " .. pool end
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

--@include terminal
local ended = terminal[run[1]]
local fields, writes, dueGone, dueAdded = {}, {}, {}, {}
local rows = {} -- Audited rows: type, subject, actor, detail.
local reportedJob, decidedApproval, checkedJob, checkedText, refusal, again, full, waitingRetry
if kind == "result" then
  local state, claim, claimToken, report, rest = string.match(run[7] or "",
    "^([^ ]+) ([^ ]+ ([^ ]+) [^ ]+ [^ ]+ [^ ]+ [^ ]+) ([^ ]+) (.*)$")
  local holds = claimToken == ARGV[19]
  if holds and report == ARGV[20] then again = true
  elseif holds and state == "reported" then refusal = "duplicate"
  elseif ended then refusal = "run_ended"
  elseif state ~= "claimed" or not holds then refusal = "stale_claim"
  else
    reportedJob = subject
    dueGone[1] = "claim " .. tenant .. " " .. subject
    fields[1], fields[2] = ARGV[21], ARGV[22]
    fields[3], fields[4] = "job:" .. subject, "reported " .. claim .. " " .. ARGV[20] .. " " .. rest
    if ran then
      writes[1] = places.leave(ran[1], ran[2], subject)
      freed = ran[1] .. " " .. ran[2]
    end
    if ARGV[23] ~= "" then
      local lettersKey, letter = start .. "documents:" .. tenant .. ":deadLetter", "meta:" .. ARGV[23]
      local rest = string.match(redis.call("HGET", lettersKey, letter) or "", "^[0-9]+( .*)$")
      if not rest then refusal = "dead_letter_not_found" end
      rows[1] = { "letter_retried", runId, ARGV[24], ARGV[23] }
      writes[#writes + 1] = { "HSET", lettersKey, letter, "2" .. (rest or "") }
    end
  end
elseif kind == "decision" then
  local approval = redis.call("HMGET", KEYS[12],
    "state", "decisionId", "hash", "expiresAt", "separateDuties", "requester", "run")
  local own = approval[5] == "true" and approval[6] == ARGV[22] and ARGV[21] == "approved"
  if approval[7] ~= runId then refusal = "approval_not_found"
  elseif approval[2] == ARGV[19] then again = true
  elseif approval[1] ~= "pending" then refusal = "approval_already_decided"
  elseif approval[5] == "true" and ARGV[27] ~= "" then refusal = "duties_separate"
  elseif approval[3] ~= ARGV[20] then refusal = "approval_changed"
  elseif approval[4] and nowMs >= tonumber(approval[4]) then refusal = "approval_expired"
  elseif own then refusal = "self_approval" end
  if refusal and refusal ~= "approval_not_found" and not revokedCaller then
    return { refusal, now, approvalNow() }
  end
  if ended and not again and not refusal then refusal = "run_ended" end
  decidedApproval = subject
  rows[1] = { "approval_decided", subject, ARGV[22], ARGV[25] }
  writes[1] = { "HSET", KEYS[12], "state", ARGV[21], "decidedAt", now, "decidedBy", ARGV[22], "decisionId", ARGV[19] }
  if ARGV[23] ~= "" then writes[2] = { "HSET", KEYS[12], "reason", ARGV[24] } end
  if ARGV[26] ~= "" then writes[#writes + 1] = { "HSET", KEYS[12], "decider", ARGV[26] } end
elseif kind == "cancel" then
  if run[3] == subject then again = true
  elseif ended then refusal = "run_ended"
  elseif run[3] then refusal = "already_cancelling" end
  fields[1], fields[2] = "cancel", subject
  rows[1] = { "cancel_requested", runId, ARGV[19], ARGV[20] }
elseif kind == "dispatch" then
  local head, said, tail = string.match(run[7] or "", "^(" .. string.rep("[^ ]+ ", 8) .. ")([^ ]+)( .*)$")
  local state, verdict = string.match(head or "", "^[^ ]+"), string.match(said or "", '^%["(%a+)"')
  if string.sub(said or "", 1, #ARGV[21]) == ARGV[21] then again = true
  elseif ended then refusal = "run_ended"
  elseif state ~= "held" then refusal = "job_not_held"
  elseif verdict and verdict ~= "hold" then refusal = "duplicate"
  else
    local lockToken, lockFence = string.match(redis.call("GET", KEYS[12]) or "", "^([^ ]+) [^ ]+ ([^ ]+)")
    if lockToken ~= ARGV[19] or lockFence ~= ARGV[20] then refusal = "stale_fence" end
    checkedJob, checkedText = subject, head .. ARGV[21] .. ARGV[22] .. "," .. now .. "]" .. tail
    fields[1], fields[2] = "job:" .. subject, checkedText
  end
elseif kind == "retry" then
  local lettersKey, actor, proveEveryMs = start .. "documents:" .. tenant .. ":deadLetter", ARGV[19], ARGV[20]
  local revision, rest = string.match(redis.call("HGET", lettersKey, "meta:" .. subject) or "", "^([0-9]+)( .*)$")
  if not revision then refusal = "dead_letter_not_found"
  elseif revision ~= "1" then again = true
  else
    if not ended then rows[1] = { "letter_retried", runId, actor, subject } end
    local retries = redis.call("HGET", runKey, "retries") or ""
    --@include waiting-retries
    waitingRetry = function(place) return retries .. retryText(place, subject) end
    full = #waitingRetries >= tonumber(ARGV[21])
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
if refusal then return { refusal, now } end
if again then return { "delivered", now, freed, approvalNow() } end
if full or (lock and ARGV[9] == "refuse") then return { "run_busy", now, "instance", holderInstance or "" } end

local function addRows()
  for _, row in ipairs(rows) do addAudited(unpack(row)) end
end

local waiting = redis.call("LLEN", inboxKey)
redis.call("ZCARD", dueKey) -- Refuses a key of another type while nothing is written yet.
local parent, treeSize = run[8], run[9]
-- What was decided for a run that has ended says nothing about the one that is opened again.
-- Nor what was decided after a commit that a failover has taken back, whose number another one has now.
local isSameCommit = madeBy == "" or string.sub(run[10] or "", 1, #madeBy + 1) == madeBy .. " "
if version and not lock and waiting == 0 and run[2] == versionText and isSameCommit and not ended then
  --@include judge-tree
  if treeFits then
    local reservation, stopped, revoked, dueChecked = run[5], nil, nil, true -- And `limits`, as above.
    local cancelling = run[3] or kind == "cancel"
    if run[4] and run[4] ~= "0" then
      fields[#fields + 1] = "drains"
      fields[#fields + 1] = "0"
    end
    --@include plan-change
    -- The rows go first: they are the only writes that Redis can refuse, and before them nothing has happened.
    addRows()
    redis.call("XADD", eventsKey, "MAXLEN", "~", eventsMax, "0-*",
      "at", now, "type", ends and "run_ended" or "run_changed", "subject", runId, "actor", "engine",
      "detail", (ends and status or nextVersion .. " " .. status) .. news)
    --@include add-tree-rows
    --@include write-change
    return { "applied", now, nextVersion, status, claims, freed, approvalNow() }
  end
end

if waitingRetry then
  fields[#fields + 1] = "retries"
  fields[#fields + 1] = waitingRetry(waiting + 1)
end
local drains, drainsSince = run[4], run[11]
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
redis.call("ZADD", dueKey, "NX", string.format("%.0f", nowMs + attentionMs), "attention " .. tenant .. " " .. runId)
return { "delivered", now, freed, approvalNow() }
