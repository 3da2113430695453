#!lua
--[[
  The whole admission decision: key, limit, slot, run, event. The hot path: every call and every string counts.
  KEYS[1] tenant: hash of limit, strategy, wait, stopped ("" means not set), version, change
  KEYS[2] run: hash of the header's fields and one field "record:<key>" per record
  KEYS[3] active: sorted set of the runs that hold the tenant's slots, by the time of their admission
  KEYS[4] events: stream with ids "0-<sequence>"
  KEYS[5] reservation: "pending <run> <fingerprint> <token>" or "bound <run> <fingerprint>[ <final status>]";
          this key and the next two are absent when the request has no idempotency key
  KEYS[6] admission lock: "<token> <instance> <fence>"
  KEYS[7] prefix of run keys: the run that a key is bound to is only known here
  ARGV[1] notAfterMs  ARGV[2] runId  ARGV[3] eventsMax  ARGV[4] fingerprint
  ARGV from 5 on: names and values of the run's fields, beginning with "workflow", ARGV[6], "actor", ARGV[8]
  Returns {"admitted", now, status, active, limit}, {"replayed", now, runId, status}, {"key_reused", now},
  {"in_flight", now}, {"limit_reached", now, limit, active}, {"tenant_stopped", now},
  {"use_lock_strategy", now, wait} or {"too_late", now}
]]
local time = redis.call("TIME")
local nowMs = time[1] * 1000 + math.floor(time[2] / 1000)
local now = string.format("%.0f", nowMs)
if nowMs > tonumber(ARGV[1]) then return { "too_late", now } end

local tenant = redis.call("HMGET", KEYS[1], "limit", "strategy", "stopped")
local limit = tenant[1] or ""
local status = redis.call("HGET", KEYS[2], "status")
local active = redis.call("ZCARD", KEYS[3])
if status then return { "admitted", now, status, active, limit } end
if tenant[2] == "lock" then
  return { "use_lock_strategy", now, redis.call("HGET", KEYS[1], "wait") or "" }
end
if KEYS[5] then
  local reservation = redis.call("GET", KEYS[5])
  if reservation then
    local state, runId, fingerprint, last = string.match(reservation, "^(%a+) ([^ ]+) ([^ ]+) ?([^ ]*)$")
    if state == "bound" then
      if fingerprint ~= ARGV[4] then return { "key_reused", now } end
      local current = redis.call("HGET", KEYS[7] .. runId, "status")
      return { "replayed", now, runId, current or (last ~= "" and last or "pending") }
    end
    -- A pending reservation lives only as long as its owner holds the admission lock.
    local lock = redis.call("GET", KEYS[6])
    if lock and string.match(lock, "^[^ ]+") == last and runId ~= ARGV[2] then return { "in_flight", now } end
  end
end
if tenant[3] == "true" then return { "tenant_stopped", now } end
if limit ~= "" and active >= tonumber(limit) then return { "limit_reached", now, limit, active } end

-- The row goes first: it is the only write that Redis can refuse, and before it nothing has happened. The stream counts.
redis.call("XADD", KEYS[4], "MAXLEN", "~", ARGV[3], "0-*",
  "at", now, "type", "run_admitted", "subject", ARGV[2], "actor", ARGV[8], "detail", ARGV[6])
redis.call("HSET", KEYS[2], "status", "pending", "admittedAt", now, unpack(ARGV, 5, math.min(#ARGV, 904)))
for first = 905, #ARGV, 900 do
  redis.call("HSET", KEYS[2], unpack(ARGV, first, math.min(#ARGV, first + 899)))
end
redis.call("ZADD", KEYS[3], now, ARGV[2])
if KEYS[5] then redis.call("SET", KEYS[5], "bound " .. ARGV[2] .. " " .. ARGV[4]) end
return { "admitted", now, "pending", active + 1, limit }
