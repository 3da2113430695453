#!lua
--[[
  Second half of the lock strategy: checks the limit again, creates the run and confirms its reservation.
  KEYS[1] tenant: hash of limit, strategy, wait, stopped ("" means not set), version, change
  KEYS[2] run: hash of the header's fields and one field "record:<key>" per record
  KEYS[3] active: sorted set of the runs that hold the tenant's slots, by the time of their admission
  KEYS[4] events: stream with ids "0-<sequence>"
  KEYS[5] guard's lock: "<token> <instance> <fence>", expires with the grant
  KEYS[6] guard's grant: "<token> <instance> <fence> held|released", the memory of the last grant
  KEYS[7] reservation: "pending <run> <fingerprint> <token>" or "bound <run> <fingerprint>[ <final status>]";
          absent when the request has no idempotency key
  ARGV[1] notAfterMs  ARGV[2] token  ARGV[3] fence  ARGV[4] policy  ARGV[5] ttlMs  ARGV[6] grantMemoryMs
  ARGV[7] runId  ARGV[8] eventsMax  ARGV[9] fingerprint
  ARGV from 10 on: names and values of the run's fields, beginning with "workflow", ARGV[11], "actor", ARGV[13]
  Returns {"created", now, status, active, limit}, {"limit_reached", now, limit, active}, {"tenant_stopped", now},
  {"reservation_lost", now}, {"stale_fence", now} or {"too_late", now}
]]
local time = redis.call("TIME")
local nowMs = time[1] * 1000 + math.floor(time[2] / 1000)
local now = string.format("%.0f", nowMs)
if nowMs > tonumber(ARGV[1]) then return { "too_late", now } end

local tenant = redis.call("HMGET", KEYS[1], "limit", "stopped")
local limit = tenant[1] or ""
local status = redis.call("HGET", KEYS[2], "status")
local active = redis.call("ZCARD", KEYS[3])
if status then return { "created", now, status, active, limit } end

local lock = redis.call("GET", KEYS[5])
local grant = redis.call("GET", KEYS[6])
local value, token, fence, state = string.match(grant or "", "^(([^ ]+) [^ ]+ ([^ ]+)) ([^ ]+)$")
if token ~= ARGV[2] or fence ~= ARGV[3] then return { "stale_fence", now } end
local retake = not lock
if retake and (ARGV[4] ~= "continue" or state == "released") then return { "stale_fence", now } end

if KEYS[7] then
  local ours = "pending " .. ARGV[7] .. " " .. ARGV[9] .. " " .. ARGV[2]
  if redis.call("GET", KEYS[7]) ~= ours then return { "reservation_lost", now } end
end
if tenant[2] == "true" then return { "tenant_stopped", now } end
if limit ~= "" and active >= tonumber(limit) then return { "limit_reached", now, limit, active } end

-- The row goes first: it is the only write that Redis can refuse, and before it nothing has happened. The stream counts.
redis.call("XADD", KEYS[4], "MAXLEN", "~", ARGV[8], "0-*",
  "at", now, "type", "run_admitted", "subject", ARGV[7], "actor", ARGV[13], "detail", ARGV[11])
if retake then
  redis.call("SET", KEYS[5], value, "PX", ARGV[5])
  redis.call("SET", KEYS[6], grant, "PX", string.format("%.0f", ARGV[5] + ARGV[6]))
end
redis.call("HSET", KEYS[2], "status", "pending", "admittedAt", now, unpack(ARGV, 10, math.min(#ARGV, 909)))
for first = 910, #ARGV, 900 do
  redis.call("HSET", KEYS[2], unpack(ARGV, first, math.min(#ARGV, first + 899)))
end
redis.call("ZADD", KEYS[3], now, ARGV[7])
if KEYS[7] then redis.call("SET", KEYS[7], "bound " .. ARGV[7] .. " " .. ARGV[9]) end
return { "created", now, "pending", active + 1, limit }
