#!lua flags=allow-oom
--[[
  Applies a change under the run lock, removes the entries it consumed, and returns what arrived meanwhile (the lock is
  armed again) or, when nothing did, releases the lock.
  KEYS[1] start of all keys of the partition: which runs the items name is only known here
  KEYS[2] due: sorted set of "<kind> <tenant> <subject>" by time
  The arguments of the call are those that parts/perform-each.lua describes: settings, and items. Of an item ARGV has
  notAfterMs first,  ARGV[2] tenant  ARGV[3] runId  ARGV[4] token  ARGV[5] fence  ARGV[6] policy  ARGV[7] ttlMs
  ARGV[8] key of the guard's lock: "<token> <instance> <fence>[ <owner>]", expires with the grant
  ARGV[9] key of the guard's grant: "<token> <instance> <fence>[ <owner>] held|released|broken", the memory of the last grant
  ARGV[10] expectedVersion  ARGV[11] consumed
  from [12] on: the change, as parts/plan-change.lua describes it
  The run is a hash of the header's fields, and fields "record:<key>", "job:<id>", "row:<version>"; its inbox a list of the entries
  that wait, "<kind> <json>", a line feed and the id.
  Returns {"performed", now, answers}; an answer is {"committed", now, version, entries, claims[, woken]}, {"tree_full", now},
  {"stale_version", now, "version", n}, {"not_found", now}, {"stale_fence", now} or {"too_late", now}
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
  local tenant, runId, guardToken, guardFence, policy = ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
  local ttlMs, lockKey, grantKey, expected, consumedText = ARGV[7], ARGV[8], ARGV[9], ARGV[10], ARGV[11]
  local version, at, known = tonumber(expected), 12, tenantOf(tenant)
  local runKey, inboxKey, activeKey, eventsKey = known.runPrefix .. runId, known.inboxPrefix .. runId, known.activeKey, known.eventsKey
  runningKey, limits, places.changes = known.runningKey, nil, {}
  limitsInUse = nil
  local committed = string.format("%.0f", version + 1)
  local run = redis.call("HMGET", runKey,
    "status", "version", "reservation", "drains", "row:" .. committed, "cancel", "parent", "treeSize", "retries",
    "gates", "place")
  if not run[1] then return { "not_found", now } end
  local lock = redis.call("GET", lockKey)
  local grant = redis.call("GET", grantKey)
  local value, token, grantFence, state = string.match(grant or "", "^(([^ ]+) [^ ]+ ([^ ]+).-) ([^ ]+)$")
  local ours = token == guardToken and grantFence == guardFence
  local commit = ARGV[at + 2] .. " "
  if run[5] and string.sub(run[5], 1, #commit) == commit then
    --@include granted-claims
    local entries = ours and lock and redis.call("LRANGE", inboxKey, 0, entriesMax - 1) or {}
    return { "committed", now, committed, entries, granted }
  end
  -- A run that waits at a gate changes only by what happens there.
  if run[2] ~= expected or terminal[run[1]] or run[1] == "queued" then return { "stale_version", now, "version", tonumber(run[2]) } end
  if not ours then return { "stale_fence", now } end
  if not lock and (policy ~= "continue" or state ~= "held") then return { "stale_fence", now } end
  local parent, treeSize = run[7], run[8]
  local gated = run[10] and useGates().parse(runId, run[10], run[11]) or nil
  --@include judge-tree
  if not treeFits then return { "tree_full", now } end

  local waiting = redis.call("LLEN", inboxKey)
  local consumed = math.min(tonumber(consumedText), waiting)
  local left = waiting - consumed
  local attention = "attention " .. tenant .. " " .. runId
  local fields, writes, dueGone, dueAdded, reservation = {}, {}, {}, {}, run[3]
  local cancelling = run[6]
  local reportedJob, decidedApproval, checkedJob, checkedText = nil, nil, nil, nil
  if run[4] and run[4] ~= "0" then fields[1], fields[2] = "drains", "0" end
  if waiting > 0 then readQueues(known) end
  local retries = run[9]
  if retries then
    -- Which retries still wait, and which letters the end of the run gives back because their retries were never applied.
    --@include waiting-retries
    local stillWaiting, discarded = "", {}
    for _, retry in ipairs(waitingRetries) do
      if retry.place > consumed then
        stillWaiting = stillWaiting .. retryText(retry.place - consumed, retry.letter)
        discarded[#discarded + 1] = "meta:" .. retry.letter
      end
    end
    if string.sub(ARGV[at + 1], 1, 4) == "ends" and #discarded > 0 then
      local lettersKey = start .. "documents:" .. tenant .. ":deadLetter"
      for index, meta in ipairs(redis.call("HMGET", lettersKey, unpack(discarded))) do
        local rest = string.match(meta or "", "^2( .*)$")
        if rest then writes[#writes + 1] = { "HSET", lettersKey, discarded[index], "1" .. rest } end
      end
      stillWaiting = ""
    end
    if stillWaiting == "" then
      writes[#writes + 1] = { "HDEL", runKey, "retries" }
    else
      fields[#fields + 1] = "retries"
      fields[#fields + 1] = stillWaiting
    end
  end
  --@include plan-change
  if limitsInUse then limitsInUse.plan(known, writes) end
  local releases = ends or left == 0
  if waiting > 0 and releases then
    dueGone[#dueGone + 1] = attention
  elseif waiting > 0 then
    dueAdded[#dueAdded + 1] = attentionAt
    dueAdded[#dueAdded + 1] = attention
  end

  -- The row goes first: it is the only write that Redis can refuse, and before it nothing has happened. The stream counts.
  if limitsInUse then limitsInUse.tell(known) end
  redis.call("XADD", eventsKey, "MAXLEN", "~", eventsMax, "0-*",
    "at", now, "type", ends and "run_ended" or "run_changed", "subject", runId, "actor", "engine",
    "detail", (ends and status or nextVersion .. " " .. status) .. news)
  --@include add-tree-rows
  --@include write-change
  if releases then
    redis.call("SET", grantKey, value .. " released", "PX", grantMemoryMs)
    redis.call("DEL", lockKey, inboxKey)
    return { "committed", now, nextVersion, {}, claims, moves and moves.woken }
  end
  redis.call("SET", lockKey, value, "PX", ttlMs)
  redis.call("SET", grantKey, value .. " held", "PX", string.format("%.0f", ttlMs + grantMemoryMs))
  if consumed > 0 then redis.call("LTRIM", inboxKey, consumed, -1) end
  return { "committed", now, nextVersion, redis.call("LRANGE", inboxKey, 0, entriesMax - 1), claims }
end
--@include perform-each
return { "performed", now, answers }
