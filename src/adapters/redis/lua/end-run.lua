#!lua flags=allow-oom
--[[
  Ends a run under its run lock: frees the slot and starts the retention of its key, all at once.
  KEYS[1] run: hash of the header's fields and one field "record:<key>" per record
  KEYS[2] active: sorted set of the runs that hold the tenant's slots, by the time of their admission
  KEYS[3] events: stream with ids "0-<sequence>"
  KEYS[4] guard's lock: "<token> <instance> <fence>", expires with the grant
  KEYS[5] guard's grant: "<token> <instance> <fence> held|released", the memory of the last grant
  KEYS[6] prefix of reservation keys: the key that a run is bound to is only known here; its value is
          "pending <run> <fingerprint> <token>" or "bound <run> <fingerprint>[ <final status>]"
  ARGV[1] notAfterMs  ARGV[2] token  ARGV[3] fence  ARGV[4] policy  ARGV[5] ttlMs  ARGV[6] grantMemoryMs
  ARGV[7] runId  ARGV[8] status  ARGV[9] actor  ARGV[10] eventsMax  ARGV[11] keyRetentionMs, "" for ever
  Returns {"ended", now, status}, {"already_ended", now, status}, {"not_found", now}, {"stale_fence", now}
  or {"too_late", now}
]]
local time = redis.call("TIME")
local nowMs = time[1] * 1000 + math.floor(time[2] / 1000)
local now = string.format("%.0f", nowMs)
if nowMs > tonumber(ARGV[1]) then return { "too_late", now } end

local run = redis.call("HMGET", KEYS[1], "status", "endedByFence", "reservation")
local status = run[1]
if not status then return { "not_found", now } end
if status ~= "pending" and status ~= "running" and status ~= "waiting" then
  local ours = status == ARGV[8] and run[2] == ARGV[3]
  return { ours and "ended" or "already_ended", now, status }
end

local lock = redis.call("GET", KEYS[4])
local grant = redis.call("GET", KEYS[5])
local value, token, fence, state = string.match(grant or "", "^(([^ ]+) [^ ]+ ([^ ]+)) ([^ ]+)$")
if token ~= ARGV[2] or fence ~= ARGV[3] then return { "stale_fence", now } end
local retake = not lock
if retake and (ARGV[4] ~= "continue" or state == "released") then return { "stale_fence", now } end

redis.call("ZSCORE", KEYS[2], ARGV[7]) -- Refuses a key of another type while nothing is written yet.
local bound = false
if run[3] then
  local reservation = redis.call("GET", KEYS[6] .. run[3])
  local runId, fingerprint = string.match(reservation or "", "^bound ([^ ]+) ([^ ]+)")
  if runId == ARGV[7] then bound = "bound " .. runId .. " " .. fingerprint .. " " .. ARGV[8] end
end

-- The row goes first: it is the only write that Redis can refuse, and before it nothing has happened. The stream counts.
redis.call("XADD", KEYS[3], "MAXLEN", "~", ARGV[10], "0-*",
  "at", now, "type", "run_ended", "subject", ARGV[7], "actor", ARGV[9], "detail", ARGV[8])
if retake then
  redis.call("SET", KEYS[4], value, "PX", ARGV[5])
  redis.call("SET", KEYS[5], grant, "PX", string.format("%.0f", ARGV[5] + ARGV[6]))
end
redis.call("HSET", KEYS[1], "status", ARGV[8], "endedAt", now, "endedByFence", ARGV[3])
redis.call("ZREM", KEYS[2], ARGV[7])
if bound and ARGV[11] == "" then
  redis.call("SET", KEYS[6] .. run[3], bound)
elseif bound then
  redis.call("SET", KEYS[6] .. run[3], bound, "PX", ARGV[11])
end
return { "ended", now, ARGV[8] }
