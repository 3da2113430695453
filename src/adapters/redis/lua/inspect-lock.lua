#!lua flags=no-writes
--[[
  Says who holds a lock and how many queue for it; the token stays secret.
  KEYS[1] lock: "<token> <instance> <fence>[ <owner>]", expires with the grant
  KEYS[2] ends: sorted set of tokens by the time until which their place is kept; absent for the lock of a run
  ARGV[1] notAfterMs
  Returns {"held", now, instance, fence, owner or "", expiresInMs, waiting}, {"free", now} or {"too_late", now}
]]
local time = redis.call("TIME")
local nowMs = time[1] * 1000 + math.floor(time[2] / 1000)
local now = string.format("%.0f", nowMs)
if nowMs > tonumber(ARGV[1]) then return { "too_late", now } end

local lock = redis.call("GET", KEYS[1])
if not lock then return { "free", now } end
local instance, fence, owner = string.match(lock, "^[^ ]+ ([^ ]+) ([^ ]+) ?(.*)$")
local waiting = KEYS[2] and redis.call("ZCOUNT", KEYS[2], now, "+inf") or 0
return { "held", now, instance, fence, owner, redis.call("PTTL", KEYS[1]), waiting }
