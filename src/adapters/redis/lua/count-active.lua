#!lua flags=no-writes
--[[
  Counts the runs that hold the tenant's slots.
  KEYS[1] active: sorted set of those runs, by the time of their admission
  KEYS[2] tenant: hash with limit, stopped ("" means not set)
  Returns {"counted", now, active, limit, stopped} or {"too_late", now}
]]
--@include clock

local tenant = redis.call("HMGET", KEYS[2], "limit", "stopped")
return { "counted", now, redis.call("ZCARD", KEYS[1]), tenant[1] or "", tenant[2] or "" }
