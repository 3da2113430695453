#!lua flags=no-writes
--[[
  Reads one approval.
  KEYS[1] approval: hash of its fields
  Returns {"approval", now, names and values in turn}, {"not_found", now} or {"too_late", now}
]]
--@include clock

local fields = redis.call("HGETALL", KEYS[1])
if #fields == 0 then return { "not_found", now } end
return { "approval", now, fields }
