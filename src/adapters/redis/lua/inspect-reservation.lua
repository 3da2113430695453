#!lua flags=no-writes
--[[
  Says which run an idempotency key belongs to.
  KEYS[1] reservation: "pending <run> <fingerprint> <token>" or "bound <run> <fingerprint>[ <final status>]"
  KEYS[2] admission lock: "<token> <instance> <fence>[ <owner>]"
  Returns {"pending", now, "runId", id}, {"bound", now, "runId", id[, "finalStatus", status]},
  {"idempotency_key_unbound", now} or {"too_late", now}
]]
--@include clock

local reservation = redis.call("GET", KEYS[1])
if not reservation then return { "idempotency_key_unbound", now } end
local state, runId, last = string.match(reservation, "^(%a+) ([^ ]+) [^ ]+ ?([^ ]*)$")
if state == "bound" and last == "" then return { "bound", now, "runId", runId } end
if state == "bound" then return { "bound", now, "runId", runId, "finalStatus", last } end
-- A dead owner's reservation binds nobody.
local lock = redis.call("GET", KEYS[2])
if lock and string.match(lock, "^[^ ]+") == last then return { "pending", now, "runId", runId } end
return { "idempotency_key_unbound", now }
