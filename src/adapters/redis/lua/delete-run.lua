#!lua flags=allow-oom
--[[
  Removes an ended run and all that belongs to it, a bounded part at a time, and adds an event row with the last part.
  KEYS[1] what every key of the partition begins with: the run's jobs and approvals are only known here
  KEYS[2] run: hash of the header's fields, and of "record:<key>", "job:<id>" and "row:<version>"
  KEYS[3] events: stream with ids "0-<sequence>"
  KEYS[4] due: sorted set of "<kind> <tenant> <subject>" by the time at which the sweep handles it
  KEYS[5] tenant: hash with revoked (" <credential> <credential> ")
  ARGV[2] tenant  ARGV[3] runId  ARGV[4] actor  ARGV[5] eventsMax
  ARGV[6] credential's word or ""
  Returns {"deleted", now}, {"more", now}, {"not_found", now}, {"not_ended", now}, {"unauthenticated", now}
  or {"too_late", now}
]]
--@include clock

--@include terminal
--@include encode-name
local start = KEYS[1]
--@include remove-run

local status = redis.call("HGET", KEYS[2], "status")
if not status then return { "not_found", now } end
if ARGV[6] ~= "" and string.find(redis.call("HGET", KEYS[5], "revoked") or "", " " .. ARGV[6] .. " ", 1, true) then
  return { "unauthenticated", now }
end
if not terminal[status] then return { "not_ended", now } end
redis.call("ZCARD", KEYS[4]) -- Refuses a key of another type while nothing is written yet.
local plan = planRemoval(ARGV[2], ARGV[3], true)
for _, key in ipairs(plan.locks) do redis.call("GET", key) end
if plan.more then
  removePlanned(plan)
  return { "more", now }
end

-- The row goes first: it is the only write that Redis can refuse, and before it nothing has happened. The stream counts.
redis.call("XADD", KEYS[3], "MAXLEN", "~", ARGV[5], "0-*",
  "at", now, "type", "run_deleted", "subject", ARGV[3], "actor", ARGV[4], "detail", status)
removePlanned(plan)
return { "deleted", now }
