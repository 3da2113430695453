#!lua
--[[
  How a job's text is taken apart: state, republished, token, worker, fence, claimedAt, expiresAt, reportId, progress,
  createdAt, topic, spec, and the key of its input to the end.
  Sets: jobPattern
]]
local jobPattern = "^([^ ]+) ([^ ]+) ([^ ]+) ([^ ]+) ([^ ]+) ([^ ]+) ([^ ]+) ([^ ]+) ([^ ]+) ([^ ]+) ([^ ]+) ([^ ]+) (.*)$"
