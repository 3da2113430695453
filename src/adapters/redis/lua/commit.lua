#!lua flags=allow-oom
--[[
  Applies a change under the run lock, removes the entries it consumed, and returns what arrived meanwhile (the lock is
  armed again) or, when nothing did, releases the lock.
  KEYS[1] run: hash of the header's fields, and fields "record:<key>", "job:<id>", "row:<version>"
  KEYS[2] active: sorted set of the runs that hold the tenant's slots, by the time of their admission
  KEYS[3] events: stream with ids "0-<sequence>"
  KEYS[4] guard's lock: "<token> <instance> <fence>[ <owner>]", expires with the grant
  KEYS[5] guard's grant: "<token> <instance> <fence>[ <owner>] held|released|broken", the memory of the last grant
  KEYS[6] due: sorted set of "<kind> <tenant> <subject>" by time
  KEYS[7] inbox: list of the entries that wait, "<kind> <json>", a line feed and the id
  KEYS[8] start of all keys of the partition: most of what a change writes is only known here
  ARGV[2] token  ARGV[3] fence  ARGV[4] policy  ARGV[5] ttlMs  ARGV[6] grantMemoryMs
  ARGV[7] tenant  ARGV[8] runId  ARGV[9] eventsMax  ARGV[10] attentionMs  ARGV[11] expectedVersion  ARGV[12] consumed
  ARGV[13] entriesMax
  ARGV from 14 on: the change, as parts/plan-change.lua describes it
  Returns {"committed", now, version, entries, claims}, {"tree_full", now}, {"stale_version", now, "version", n},
  {"not_found", now}, {"stale_fence", now} or {"too_late", now}
]]
--@include clock

local runKey, activeKey, eventsKey, dueKey, inboxKey, start = KEYS[1], KEYS[2], KEYS[3], KEYS[6], KEYS[7], KEYS[8]
local tenant, runId, version, at = ARGV[7], ARGV[8], tonumber(ARGV[11]), 14
local eventsMax, attentionMs = ARGV[9], ARGV[10]
local committed = string.format("%.0f", version + 1)
local run = redis.call("HMGET", runKey,
  "status", "version", "reservation", "drains", "row:" .. committed, "cancel", "parent", "treeSize", "retries")
if not run[1] then return { "not_found", now } end
local lock = redis.call("GET", KEYS[4])
local grant = redis.call("GET", KEYS[5])
local value, token, grantFence, state = string.match(grant or "", "^(([^ ]+) [^ ]+ ([^ ]+).-) ([^ ]+)$")
local ours = token == ARGV[2] and grantFence == ARGV[3]
local commit = ARGV[at + 2] .. " "
if run[5] and string.sub(run[5], 1, #commit) == commit then
  --@include granted-claims
  local entries = ours and lock and redis.call("LRANGE", inboxKey, 0, ARGV[13] - 1) or {}
  return { "committed", now, committed, entries, granted }
end
--@include terminal
if run[2] ~= ARGV[11] or terminal[run[1]] then return { "stale_version", now, "version", tonumber(run[2]) } end
if not ours then return { "stale_fence", now } end
if not lock and (ARGV[4] ~= "continue" or state ~= "held") then return { "stale_fence", now } end
local parent, treeSize = run[7], run[8]
--@include judge-tree
if not treeFits then return { "tree_full", now } end

local waiting = redis.call("LLEN", inboxKey)
local consumed = math.min(tonumber(ARGV[12]), waiting)
local left = waiting - consumed
local attention = "attention " .. tenant .. " " .. runId
local fields, writes, dueGone, dueAdded, reservation = {}, {}, {}, {}, run[3]
local dueChecked, stopped, revoked, limits, cancelling = waiting > 0, nil, nil, nil, run[6]
local runningKey = start .. "running:" .. tenant
--@include worker-word
--@include places
local reportedJob, decidedApproval, checkedJob, checkedText = nil, nil, nil, nil
if run[4] and run[4] ~= "0" then fields[1], fields[2] = "drains", "0" end
if waiting > 0 then redis.call("ZCARD", dueKey) end -- Refuses a key of another type while nothing is written yet.
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
local releases = ends or left == 0
if waiting > 0 and releases then
  dueGone[#dueGone + 1] = attention
elseif waiting > 0 then
  dueAdded[#dueAdded + 1] = string.format("%.0f", nowMs + attentionMs)
  dueAdded[#dueAdded + 1] = attention
end

-- The row goes first: it is the only write that Redis can refuse, and before it nothing has happened. The stream counts.
redis.call("XADD", eventsKey, "MAXLEN", "~", eventsMax, "0-*",
  "at", now, "type", ends and "run_ended" or "run_changed", "subject", runId, "actor", "engine",
  "detail", (ends and status or nextVersion .. " " .. status) .. news)
--@include add-tree-rows
--@include write-change
if releases then
  redis.call("SET", KEYS[5], value .. " released", "PX", ARGV[6])
  redis.call("DEL", KEYS[4], inboxKey)
  return { "committed", now, nextVersion, {}, claims }
end
redis.call("SET", KEYS[4], value, "PX", ARGV[5])
redis.call("SET", KEYS[5], value .. " held", "PX", string.format("%.0f", ARGV[5] + ARGV[6]))
if consumed > 0 then redis.call("LTRIM", inboxKey, consumed, -1) end
return { "committed", now, nextVersion, redis.call("LRANGE", inboxKey, 0, ARGV[13] - 1), claims }
