#!lua
--[[
  The time of the store, the same for all that one script does.
  Sets: time (seconds and microseconds), nowMs (a number), now (as text)
]]
local time = redis.call("TIME")
local nowMs = time[1] * 1000 + math.floor(time[2] / 1000)
local now = string.format("%.0f", nowMs)
