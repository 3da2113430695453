#!lua
--[[
  The functions on gates, made when the first of them is needed: most calls need none, and making them all would cost more
  than a start may lose.
  Reads: start, dueKey, now, nowMs, attentionAt, retentionAt, timelineRowsMax, keepMs, proveEveryMs, eventsMax, trailMax,
  settingsOf, readQueues, checkSet, writeProof
  Sets: useGates (it gives the tables that `gates`, `gate-queues` and `grants` set)
]]
local gatesInUse, queuesInUse, grantsInUse

local function useGates()
  if not gatesInUse then
    --@include gates
    --@include gate-queues
    --@include grants
    gatesInUse, queuesInUse, grantsInUse = gates, queues, grants
  end
  return gatesInUse, queuesInUse, grantsInUse
end
