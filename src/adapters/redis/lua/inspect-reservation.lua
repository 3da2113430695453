#!lua flags=no-writes
--[[
  Says which run an idempotency key belongs to.
  KEYS[1] reservation: "pending <run> <fingerprint> <token>" or "bound <run> <fingerprint>[ <final status>]"
  KEYS[2] admission lock: "<token> <instance> <fence>[ <owner>]"
  ARGV[1] notAfterMs
  Returns {"pending", now, runId}, {"bound", now, runId, finalStatus or ""}, {"idempotency_key_unbound", now} or {"too_late", now}
]]
local time = redis.call("TIME")
local nowMs = time[1] * 1000 + math.floor(time[2] / 1000)
local now = string.format("%.0f", nowMs)
if nowMs > tonumber(ARGV[1]) then return { "too_late", now } end

local reservation = redis.call("GET", KEYS[1])
if not reservation then return { "idempotency_key_unbound", now } end
local state, runId, last = string.match(reservation, "^(%a+) ([^ ]+) [^ ]+ ?([^ ]*)$")
if state == "bound" then return { "bound", now, runId, last } end
-- A dead owner's reservation binds nobody.
local lock = redis.call("GET", KEYS[2])
if lock and string.match(lock, "^[^ ]+") == last then return { "pending", now, runId } end
return { "idempotency_key_unbound", now }
