#!lua
--[[
  The statuses of a run that has ended.
  Sets: terminal
]]
local terminal = { succeeded = true, failed = true, denied = true, cancelled = true, timed_out = true }
