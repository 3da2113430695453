#!lua
--[[
  Saves a document if it is at the expected revision, and adds an event row: none for a seal or the record of a process,
  and for a dead letter, which is removed after its time, one of the feed only. All others are audited. A tenant that is removed gets no more keys.
  KEYS[1] documents: hash of "meta:<id>" ("<revision> <savedAt> <change>"), "body:<id>" and, of workflows, "limits:<id>"
  KEYS[2] document ids: sorted set of all ids with score 0
  KEYS[3] events: stream with ids "0-<sequence>"
  KEYS[4] due: sorted set of "<kind> <tenant> <subject>" by the time at which the sweep handles it
  KEYS[5] tenant: hash with revoked (" <credential> <credential> ") and removed ("true" or not), quota:<name>
  KEYS[6] trail: stream of the audit records, with ids "0-<sequence>"
  KEYS[7] parked lines: sorted set of the budgets that hold jobs
  ARGV[2] tenant  ARGV[3] collection  ARGV[4] id  ARGV[5] body  ARGV[6] expectedRevision, or ""
  ARGV[7] changeId  ARGV[8] actor  ARGV[9] eventsMax  ARGV[10] retentionMs, or "" for ever
  ARGV[11] credential's word or ""  ARGV[12] field of the quota of this collection, or ""  ARGV[13] quota where it is not set
  ARGV[14] trailMax  ARGV[15] limits of a workflow's gates and its budgets, each "<spec>=<max>" between two spaces, or ""
  Returns {"saved", now, "revision", n}, {"revision_conflict", now, "revision", n}, {"unauthenticated", now},
  {"tenant_removed", now}, {"quota_reached", now, "quota", n} or {"too_late", now}
]]
--@include clock
local eventsKey, trailKey, eventsMax, trailMax = KEYS[3], KEYS[6], ARGV[9], ARGV[14]
--@include add-audited

local meta = redis.call("HGET", KEYS[1], "meta:" .. ARGV[4])
local revision, change = string.match(meta or "0 0 ", "^([0-9]+) [0-9]+ (.*)$")
if meta and change == ARGV[7] then return { "saved", now, "revision", tonumber(revision) } end
local tenant = redis.call("HMGET", KEYS[5], "revoked", "removed", ARGV[12])
if ARGV[11] ~= "" and string.find(tenant[1] or "", " " .. ARGV[11] .. " ", 1, true) then
  return { "unauthenticated", now }
end
if ARGV[3] == "apiKey" and tenant[2] == "true" then return { "tenant_removed", now } end
if ARGV[6] ~= "" and revision ~= ARGV[6] then return { "revision_conflict", now, "revision", tonumber(revision) } end
local stored = redis.call("ZCARD", KEYS[2]) -- Refuses a key of another type while nothing is written yet.
redis.call("ZCARD", KEYS[4])
local anyParked = ARGV[3] == "workflow" and redis.call("ZCARD", KEYS[7]) > 0
if not meta and ARGV[12] ~= "" then
  local quota = tonumber(tenant[3] or "") or tonumber(ARGV[13])
  if stored >= quota then return { "quota_reached", now, "quota", quota } end
end

-- The row goes first: it is the only write that Redis can refuse, and before it nothing has happened. The stream counts.
local subject = ARGV[3] .. "/" .. ARGV[4]
if ARGV[3] == "deadLetter" then
  redis.call("XADD", eventsKey, "MAXLEN", "~", eventsMax, "0-*",
    "at", now, "type", "document_saved", "subject", subject, "actor", ARGV[8], "detail", ARGV[7])
elseif ARGV[3] ~= "seal" and ARGV[3] ~= "process" then
  addAudited("document_saved", subject, ARGV[8], ARGV[7])
end
-- Letters have two revisions: one that is written again is a new letter, and the second says that it was retried.
local nextRevision = ARGV[10] == "" and string.format("%.0f", revision + 1) or "1"
local nextMeta = nextRevision .. " " .. now .. " " .. ARGV[7]
redis.call("HSET", KEYS[1], "meta:" .. ARGV[4], nextMeta, "body:" .. ARGV[4], ARGV[5])
redis.call("ZADD", KEYS[2], "0", ARGV[4])
if ARGV[3] == "workflow" then
  if ARGV[15] ~= "" then redis.call("HSET", KEYS[1], "limits:" .. ARGV[4], ARGV[15])
  else redis.call("HDEL", KEYS[1], "limits:" .. ARGV[4]) end
  -- Where runs wait, there is a visit of their gates: it comes at once.
  redis.call("ZADD", KEYS[4], "XX", "LT", now, "gates " .. ARGV[2] .. " ")
  if anyParked then redis.call("ZADD", KEYS[4], now, "budgets " .. ARGV[2] .. " ") end
end
if ARGV[10] ~= "" then
  redis.call("ZADD", KEYS[4], string.format("%.0f", nowMs + ARGV[10]), "letter " .. ARGV[2] .. " " .. ARGV[4])
end
return { "saved", now, "revision", tonumber(nextRevision) }
