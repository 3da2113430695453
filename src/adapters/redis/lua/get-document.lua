#!lua flags=no-writes
--[[
  Reads one document.
  KEYS[1] documents: hash of "meta:<id>" ("<revision> <savedAt> <change>") and "body:<id>"
  ARGV[2] id
  Returns {"document", now, meta, body}, {"not_found", now} or {"too_late", now}
]]
--@include clock

local document = redis.call("HMGET", KEYS[1], "meta:" .. ARGV[2], "body:" .. ARGV[2])
if not document[1] then return { "not_found", now } end
return { "document", now, document[1], document[2] }
