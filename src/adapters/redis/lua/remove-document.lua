#!lua flags=allow-oom
--[[
  Removes a document and adds an audited row, unless it is a seal of such rows or the record of a process.
  KEYS[1] documents: hash of "meta:<id>" ("<revision> <savedAt> <change>"), "body:<id>" and, of workflows, "limits:<id>"
  KEYS[2] document ids: sorted set of all ids with score 0
  KEYS[3] events: stream with ids "0-<sequence>"
  KEYS[4] due: sorted set of "<kind> <tenant> <subject>" by the time at which the sweep handles it
  KEYS[5] tenant: hash with revoked (" <credential> <credential> ")
  KEYS[6] trail: stream of the audit records, with ids "0-<sequence>"
  KEYS[7] parked lines: sorted set of the budgets that hold jobs
  ARGV[2] tenant  ARGV[3] collection  ARGV[4] id  ARGV[5] actor  ARGV[6] eventsMax
  ARGV[7] credential's word or ""  ARGV[8] trailMax
  Returns {"removed", now}, {"not_found", now}, {"unauthenticated", now} or {"too_late", now}
]]
--@include clock
local eventsKey, trailKey, eventsMax, trailMax = KEYS[3], KEYS[6], ARGV[6], ARGV[8]
--@include add-audited

local meta = redis.call("HGET", KEYS[1], "meta:" .. ARGV[4])
if not meta then return { "not_found", now } end
if ARGV[7] ~= "" and string.find(redis.call("HGET", KEYS[5], "revoked") or "", " " .. ARGV[7] .. " ", 1, true) then
  return { "unauthenticated", now }
end
redis.call("ZCARD", KEYS[2]) -- Refuses a key of another type while nothing is written yet.
redis.call("ZCARD", KEYS[4])
local anyParked = ARGV[3] == "workflow" and redis.call("ZCARD", KEYS[7]) > 0

if ARGV[3] ~= "seal" and ARGV[3] ~= "process" then
  addAudited("document_removed", ARGV[3] .. "/" .. ARGV[4], ARGV[5], string.match(meta, "^[0-9]+"))
end
redis.call("HDEL", KEYS[1], "meta:" .. ARGV[4], "body:" .. ARGV[4], "limits:" .. ARGV[4])
redis.call("ZREM", KEYS[2], ARGV[4])
if ARGV[3] == "workflow" then redis.call("ZADD", KEYS[4], "XX", "LT", now, "gates " .. ARGV[2] .. " ") end
if anyParked then redis.call("ZADD", KEYS[4], now, "budgets " .. ARGV[2] .. " ") end
if ARGV[3] == "deadLetter" then redis.call("ZREM", KEYS[4], "letter " .. ARGV[2] .. " " .. ARGV[4]) end
return { "removed", now }
