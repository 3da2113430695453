#!lua flags=allow-oom
--[[
  Hands on what is free at a gate.
  KEYS[1] start of all keys of the partition: whom it concerns is only known here
  KEYS[2] due: sorted set of "<kind> <tenant> <subject>" by time
  After notAfterMs the settings, as parts/call-settings.lua describes them
  ARGV[18] tenant  ARGV[19] gate
  Returns {"handed_on", now, woken runs, 1 if there is more or else 0} or {"too_late", now}
]]
--@include clock

local start, dueKey = KEYS[1], KEYS[2]
--@include call-settings
--@include tenants
--@include use-gates
local known, _, _, grants = tenantOf(ARGV[18]), useGates()
readQueues(known)
redis.call("XRANGE", known.eventsKey, "-", "+", "COUNT", 1) -- Refuses a key of another type while nothing is written yet.
grants.check(known, { ARGV[19] })
local moves = { woken = {}, freed = { ARGV[19] } }
local more = 0
for _, id in ipairs(grants.handOn(known, moves)) do
  if id == ARGV[19] then more = 1 end
end
return { "handed_on", now, moves.woken, more }
