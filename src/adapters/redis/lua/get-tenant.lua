#!lua flags=no-writes
--[[
  Reads a tenant's settings and their version.
  KEYS[1] tenant: hash with version, settings (as JSON)
  Returns {"tenant", now, version, settings as JSON} or {"too_late", now}
]]
--@include clock

local tenant = redis.call("HMGET", KEYS[1], "version", "settings")
return { "tenant", now, tenant[1] or "0", tenant[2] or "{}" }
