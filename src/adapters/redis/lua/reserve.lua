#!lua
--[[
  First half of the lock strategy: claims the key for a run that will be created under the same admission lock.
  KEYS[1] guard's lock: "<token> <instance> <fence>[ <owner>]", expires with the grant
  KEYS[2] guard's grant: "<token> <instance> <fence>[ <owner>] held|released|broken", the memory of the last grant
  KEYS[3] reservation: "pending <run> <fingerprint> <token>" or "bound <run> <fingerprint>[ <final status>]"
  KEYS[4] admission lock: the key of the guard's lock, unless the caller holds another one
  KEYS[5] prefix of run keys: the run that a key is bound to is only known here
  KEYS[6] keyed: sorted set of the tenant's idempotency keys, by when they end
  KEYS[7] due: sorted set of "<kind> <tenant> <subject>" by time
  KEYS[8] prefix of reservation keys: the one that gives way is only known here
  ARGV[2] token  ARGV[3] fence  ARGV[4] policy  ARGV[5] ttlMs  ARGV[6] grantMemoryMs
  ARGV[7] runId  ARGV[8] fingerprint  ARGV[9] reservationMs  ARGV[10] tenant  ARGV[11] key's digest
  ARGV[12] quota of keys
  Returns {"reserved", now[, "evictedEarly", 1]}, {"replayed", now, "runId", id, "status", status}, {"idempotency_key_reused", now},
  {"idempotency_key_in_flight", now}, {"stale_fence", now} or {"too_late", now}
]]
--@include clock

local lock = redis.call("GET", KEYS[1])
local grant = redis.call("GET", KEYS[2])
local value, token, fence, state = string.match(grant or "", "^(([^ ]+) [^ ]+ ([^ ]+).-) ([^ ]+)$")
if token ~= ARGV[2] or fence ~= ARGV[3] then return { "stale_fence", now } end
local retake = not lock
if retake and (ARGV[4] ~= "continue" or state ~= "held") then return { "stale_fence", now } end

local reservation = redis.call("GET", KEYS[3])
if reservation then
  local kind, runId, fingerprint, last = string.match(reservation, "^(%a+) ([^ ]+) ([^ ]+) ?([^ ]*)$")
  if kind == "bound" then
    if fingerprint ~= ARGV[8] then return { "idempotency_key_reused", now } end
    local current = redis.call("HGET", KEYS[5] .. runId, "status")
    return { "replayed", now, "runId", runId, "status", current or (last ~= "" and last or "pending") }
  end
  -- A pending reservation lives only as long as its owner holds the admission lock.
  local admission = redis.call("GET", KEYS[4])
  if admission and string.match(admission, "^[^ ]+") == last then
    return { runId == ARGV[7] and "reserved" or "idempotency_key_in_flight", now }
  end
end

redis.call("ZCARD", KEYS[7]) -- Refuses a key of another type while nothing is written yet.
local evicted, early = false, false
if redis.call("ZCARD", KEYS[6]) >= tonumber(ARGV[12]) and not redis.call("ZSCORE", KEYS[6], ARGV[11]) then
  local oldest = redis.call("ZRANGE", KEYS[6], 0, 0, "WITHSCORES")
  evicted = oldest[1] and oldest[2] ~= "9007199254740991" and oldest[1]
  if evicted then
    redis.call("GET", KEYS[8] .. evicted)
    early = tonumber(oldest[2]) >= nowMs
  end
end
if retake then
  redis.call("SET", KEYS[1], value, "PX", ARGV[5])
  redis.call("SET", KEYS[2], grant, "PX", string.format("%.0f", ARGV[5] + ARGV[6]))
end
if evicted then
  redis.call("DEL", KEYS[8] .. evicted)
  redis.call("ZREM", KEYS[6], evicted)
end
redis.call("SET", KEYS[3], "pending " .. ARGV[7] .. " " .. ARGV[8] .. " " .. ARGV[2], "PX", ARGV[9])
redis.call("ZADD", KEYS[6], string.format("%.0f", nowMs + ARGV[9]), ARGV[11])
redis.call("ZADD", KEYS[7], "LT", string.format("%.0f", nowMs + ARGV[9] + 1), "proof " .. ARGV[10] .. " ")
if early then return { "reserved", now, "evictedEarly", 1 } end
return { "reserved", now }
