#!lua
--[[
  Puts a run that waits at another place of its queue, adds an audited row, and hands on what is free there.
  KEYS[1] start of all keys of the partition: whom it concerns is only known here
  KEYS[2] due: sorted set of "<kind> <tenant> <subject>" by time
  After notAfterMs the settings, as parts/call-settings.lua describes them
  ARGV[18] tenant  ARGV[19] runId  ARGV[20] "head" or a priority  ARGV[21] actor  ARGV[22] credential's word or ""
  Returns {"moved", now, gate, woken runs}, {"run_not_found", now}, {"unauthenticated", now}, {"run_not_queued", now} or
  {"too_late", now}
]]
--@include clock

local start, dueKey = KEYS[1], KEYS[2]
--@include call-settings
--@include tenants
--@include use-gates
local known, runId, to = tenantOf(ARGV[18]), ARGV[19], ARGV[20]
local gates, queues, grants = useGates()
if redis.call("HEXISTS", known.runPrefix .. runId, "status") == 0 then return { "run_not_found", now } end
if ARGV[22] ~= "" and string.find(settingsOf(known).revoked, " " .. ARGV[22] .. " ", 1, true) then
  return { "unauthenticated", now }
end
local run = gates.read(known, runId)
if not run or not run.level then return { "run_not_queued", now } end
readQueues(known)
local gate = gates.of(known, run.gates[run.held + 1].id)
-- One that comes back is before all others already.
if run.away then return { "moved", now, gate.id, {} } end
local level = to == "head" and 10 or tonumber(to)
-- It is there already, and nobody came after it: a repeat changes nothing.
if run.level == level and tonumber(redis.call("HGET", gate.queueKey, "arrivals") or 0) == run.arrival then
  return { "moved", now, gate.id, {} }
end
gates.checkLevel(gate, level)
grants.check(known, { gate.id })
local eventsKey, trailKey = known.eventsKey, start .. "trail:" .. known.id
--@include add-audited
addAudited("run_moved", runId, ARGV[21], gate.id .. " " .. to)
queues.leave(known, gate, run, false)
queues.join(known, gate, run, level, nowMs)
redis.call("HSET", known.runPrefix .. runId, "place", gates.placeText(run))
local moves = { woken = {}, freed = { gate.id } }
grants.handOn(known, moves)
return { "moved", now, gate.id, moves.woken }
