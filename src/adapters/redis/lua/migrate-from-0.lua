#!lua
--[[
  Brings a partition from schema version 0 to 1: the keys are the same, only the version is new. It has no notAfterMs:
  it may be repeated at any time.
  KEYS[1] schema: the version that the partition's keys are written in, never expires
  Returns {"migrated", now}
]]
local time = redis.call("TIME")
local now = string.format("%.0f", time[1] * 1000 + math.floor(time[2] / 1000))

if redis.call("GET", KEYS[1]) == "0" then redis.call("SET", KEYS[1], "1") end
return { "migrated", now }
