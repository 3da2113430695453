#!lua flags=no-writes
--[[
  Says who holds a lock; the token stays secret.
  KEYS[1] lock: "<token> <instance> <fence>", expires with the grant
  ARGV[1] notAfterMs
  Returns {"held", now, instance, fence, expiresInMs}, {"free", now} or {"too_late", now}
]]
local time = redis.call("TIME")
local nowMs = time[1] * 1000 + math.floor(time[2] / 1000)
local now = string.format("%.0f", nowMs)
if nowMs > tonumber(ARGV[1]) then return { "too_late", now } end

local lock = redis.call("GET", KEYS[1])
if not lock then return { "free", now } end
local instance, fence = string.match(lock, "^[^ ]+ ([^ ]+) ([^ ]+)$")
return { "held", now, instance, fence, redis.call("PTTL", KEYS[1]) }
