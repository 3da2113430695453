#!lua
--[[
  Every operation begins with it: what arrives after its time has no effect.
  ARGV[1] notAfterMs
  Sets: time (seconds and microseconds), nowMs (a number), now (as text)
]]
local time = redis.call("TIME")
local nowMs = time[1] * 1000 + math.floor(time[2] / 1000)
local now = string.format("%.0f", nowMs)
if nowMs > tonumber(ARGV[1]) then return { "too_late", now } end
