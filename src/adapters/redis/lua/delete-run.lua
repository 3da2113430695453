#!lua flags=allow-oom
--[[
  Removes an ended run and all that belongs to it, a bounded part at a time, and adds an audited row with the last part.
  KEYS[1] what every key of the partition begins with: the run's jobs and approvals are only known here
  KEYS[2] run: hash of the header's fields, and of "record:<key>", "job:<id>" and "row:<version>"
  KEYS[3] events: stream with ids "0-<sequence>"
  KEYS[4] due: sorted set of "<kind> <tenant> <subject>" by the time at which the sweep handles it
  KEYS[5] tenant: hash with revoked (" <credential> <credential> ")
  KEYS[6] trail: stream of the audit records, with ids "0-<sequence>"
  ARGV[2] tenant  ARGV[3] runId  ARGV[4] actor  ARGV[5] eventsMax
  ARGV[6] credential's word or ""  ARGV[7] trailMax
  Returns {"deleted", now}, {"more", now}, {"not_found", now}, {"not_ended", now}, {"unauthenticated", now}
  or {"too_late", now}
]]
--@include clock
local eventsKey, trailKey, eventsMax, trailMax = KEYS[3], KEYS[6], ARGV[5], ARGV[7]
--@include add-audited

--@include terminal
--@include encode-name
local start, dueKey = KEYS[1], KEYS[4]
--@include tenants
--@include use-limits
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
redis.call("XRANGE", trailKey, "-", "+", "COUNT", 1)
if limitsInUse then limitsInUse.tell(tenantOf(ARGV[2])) end
if plan.more then
  removePlanned(plan)
  return { "more", now }
end

addAudited("run_deleted", ARGV[3], ARGV[4], status)
removePlanned(plan)
return { "deleted", now }
