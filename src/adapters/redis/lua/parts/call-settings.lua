#!lua
--[[
  The store's settings, as the operations that write changes are handed them, once for all items of a call.
  What every item compares or adds is made a number here: 500 instructions each time otherwise.
  ARGV[2] eventsMax  ARGV[3] trailMax  ARGV[4] attentionMs  ARGV[5] timelineRowsMax  ARGV[6] runRetentionMs
  ARGV[7] keyRetentionMs ("" for ever)  ARGV[8] proveEveryMs  ARGV[9] republishAfterMs  ARGV[10] deadLetterRetentionMs
  ARGV[11] runsPerRootMax  ARGV[12] quota of keys  ARGV[13] quota of active runs  ARGV[14] "<drainsMax> <setAsideAfterMs>"
  ARGV[15] entriesMax  ARGV[16] grantMemoryMs  ARGV[17] queuedMax
  Reads: nowMs
  Sets: eventsMax, trailMax, attentionMs, timelineRowsMax, keepMs, proveEveryMs, letterMs, runsPerRootMax, keysMax,
  activeMax, drainsMax, entriesMax, grantMemoryMs, queuedMax, settingsEnd (index of the last of them), attentionAt, unclaimedAt, retentionAt
  (when a run or a job that is written now is looked at again, as text)
]]
local eventsMax, trailMax, attentionMs, timelineRowsMax, runRetentionMs = ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5]), ARGV[6]
local keepMs, proveEveryMs, republishAfterMs, letterMs, runsPerRootMax = ARGV[7], tonumber(ARGV[8]), ARGV[9], ARGV[10], ARGV[11]
local keysMax, activeMax, drainsMax, entriesMax, grantMemoryMs = tonumber(ARGV[12]), tonumber(ARGV[13]), ARGV[14], ARGV[15], ARGV[16]
local queuedMax, settingsEnd = tonumber(ARGV[17]), 17
local attentionAt = string.format("%.0f", nowMs + attentionMs)
local unclaimedAt = string.format("%.0f", nowMs + republishAfterMs)
local retentionAt = string.format("%.0f", nowMs + runRetentionMs)
