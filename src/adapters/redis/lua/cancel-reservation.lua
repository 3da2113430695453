#!lua flags=allow-oom
--[[
  Gives a pending reservation back; never touches a bound one or another owner's.
  KEYS[1] reservation: "pending <run> <fingerprint> <token>" or "bound <run> <fingerprint>[ <final status>]"
  KEYS[2] keyed: sorted set of the tenant's idempotency keys, by when they end
  ARGV[2] runId  ARGV[3] token  ARGV[4] key's digest
  Returns {"cancelled", now}, {"kept", now} or {"too_late", now}
]]
--@include clock

local reservation = redis.call("GET", KEYS[1])
if not reservation then return { "cancelled", now } end
local runId, token = string.match(reservation, "^pending ([^ ]+) [^ ]+ ([^ ]+)$")
if runId ~= ARGV[2] or token ~= ARGV[3] then return { "kept", now } end

redis.call("ZCARD", KEYS[2]) -- Refuses a key of another type while nothing is written yet.
redis.call("DEL", KEYS[1])
redis.call("ZREM", KEYS[2], ARGV[4])
return { "cancelled", now }
