#!lua
--[[
  Puts a run that waits at another place of its queue, adds an audited row, and hands on what is free there.
  KEYS[1] start of all keys of the partition: whom it concerns is only known here
  KEYS[2] due: sorted set of "<kind> <tenant> <subject>" by time
  After notAfterMs the settings, as parts/call-settings.lua describes them
  ARGV[18] tenant  ARGV[19] runId  ARGV[20] "head" or a priority  ARGV[21] actor  ARGV[22] credential's word or ""
  ARGV[23] moveId: the run's field moved has that of its last move, "<moveId> <gate>"
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
local found = redis.call("HMGET", known.runPrefix .. runId, "status", "moved")
if not found[1] then return { "run_not_found", now } end
local movedId, movedAt = string.match(found[2] or "", "^([^ ]+) (.*)$")
if movedId == ARGV[23] then return { "moved", now, movedAt, {} } end
if ARGV[22] ~= "" and string.find(settingsOf(known).revoked, " " .. ARGV[22] .. " ", 1, true) then
  return { "unauthenticated", now }
end
local run = gates.read(known, runId)
if not run or not run.level then return { "run_not_queued", now } end
readQueues(known)
local gate = gates.of(known, run.gates[run.held + 1].id)
local level = to == "head" and 10 or tonumber(to)
gates.checkLevel(gate, level)
grants.check(known, { gate.id })
local eventsKey, trailKey = known.eventsKey, start .. "trail:" .. known.id
--@include add-audited
addAudited("run_moved", runId, ARGV[21], gate.id .. " " .. to)
queues.leave(known, gate, run, false)
queues.join(known, gate, run, level, nowMs)
redis.call("HSET", known.runPrefix .. runId, "place", gates.placeText(run), "moved", ARGV[23] .. " " .. gate.id)
local moves = { woken = {}, freed = { gate.id } }
grants.handOn(known, moves)
return { "moved", now, gate.id, moves.woken }
