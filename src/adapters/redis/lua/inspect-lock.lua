#!lua flags=no-writes
--[[
  Says who holds a lock and how many queue for it; the token stays secret.
  KEYS[1] lock: "<token> <instance> <fence>[ <owner>]", expires with the grant
  KEYS[2] ends: sorted set of tokens by the time until which their place is kept; absent for the lock of a run
  Returns {"held", now, instance, fence, owner or "", expiresInMs, waiting}, {"free", now} or {"too_late", now}
]]
--@include clock

local lock = redis.call("GET", KEYS[1])
if not lock then return { "free", now } end
local instance, fence, owner = string.match(lock, "^[^ ]+ ([^ ]+) ([^ ]+) ?(.*)$")
local waiting = KEYS[2] and redis.call("ZCOUNT", KEYS[2], now, "+inf") or 0
return { "held", now, instance, fence, owner, redis.call("PTTL", KEYS[1]), waiting }
