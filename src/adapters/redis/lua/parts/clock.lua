#!lua
--[[
  Every operation begins with it: what arrives after its time has no effect.
  ARGV[1] notAfterMs
  Sets: time (seconds and microseconds), nowMs (a number), now (as text)
]]
--@include now
if nowMs > tonumber(ARGV[1]) then return { "too_late", now } end
