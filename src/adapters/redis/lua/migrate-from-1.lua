#!lua
--[[
  Brings a partition from schema version 1 to 2: tenants get their settings as one text, runs their version and their
  place in the list of runs, idempotency keys their place in the order of their end; retention and proofs are planned.
  It has no notAfterMs: it may be repeated at any time. It looks at every key of the server, which takes a second for
  some millions; there is no other list of them.
  KEYS[1] schema: the version that the partition's keys are written in, never expires
  Returns {"migrated", now}, or {"denied", now, command}: looking at the names of all keys is a right that only this needs
]]
local time = redis.call("TIME")
local nowMs = time[1] * 1000 + math.floor(time[2] / 1000)
local now = string.format("%.0f", nowMs)
if redis.call("GET", KEYS[1]) ~= "1" then return { "migrated", now } end
if not redis.acl_check_cmd("SCAN", "0") then return { "denied", now, "SCAN" } end

-- Version 1 kept runs for ever; from now on they have a week, as the default is.
local runRetentionMs, proveEveryMs, never = 604800000, 60000, "9007199254740991"
local start = string.sub(KEYS[1], 1, -1 - #"schema")
local names, cursor = {}, "0"
repeat
  local page = redis.call("SCAN", cursor, "MATCH", string.gsub(start, "[*?%[%]\\]", "\\%0") .. "*", "COUNT", "1000")
  cursor = page[1]
  for _, key in ipairs(page[2]) do names[#names + 1] = string.sub(key, #start + 1) end
until cursor == "0"

local function migrateTenant(tenant)
  local key = start .. "tenant:" .. tenant
  local limit, strategy, wait, stopped = unpack(redis.call("HMGET", key, "limit", "strategy", "wait", "stopped"))
  local settings = {}
  if limit and limit ~= "" then settings[#settings + 1] = '"maxConcurrentRuns":' .. limit end
  if strategy and strategy ~= "" then settings[#settings + 1] = '"admissionStrategy":"' .. strategy .. '"' end
  if wait and wait ~= "" then settings[#settings + 1] = '"admissionWait":"' .. wait .. '"' end
  if stopped and stopped ~= "" then settings[#settings + 1] = '"stopped":' .. stopped end
  redis.call("HSET", key, "settings", "{" .. table.concat(settings, ",") .. "}", "revoked", "")
end

local function migrateRun(tenant, runId)
  local key = start .. "run:" .. tenant .. ":" .. runId
  local admittedAt, endedAt, digest = unpack(redis.call("HMGET", key, "admittedAt", "endedAt", "reservation"))
  redis.call("HSET", key, "definition", "", "version", "1", "updatedAt", endedAt or admittedAt)
  redis.call("HDEL", key, "endedByFence")
  redis.call("ZADD", start .. "runs:" .. tenant, 0, runId)
  if endedAt then
    local removeAt = string.format("%.0f", nowMs + runRetentionMs)
    redis.call("ZADD", start .. "due", removeAt, "retention " .. tenant .. " " .. runId)
  end
  local held = digest and redis.call("GET", start .. "wf:run:idempotency:" .. tenant .. ":" .. digest)
  local fingerprint = string.match(held or "", "^bound [^ ]+ ([^ ]+)")
  if fingerprint then redis.call("HSET", key, "fingerprint", fingerprint) end
end

local function migrateKey(tenant, digest)
  local leftMs = redis.call("PTTL", start .. "wf:run:idempotency:" .. tenant .. ":" .. digest)
  local endsAt = leftMs < 0 and never or string.format("%.0f", nowMs + leftMs)
  redis.call("ZADD", start .. "keyed:" .. tenant, endsAt, digest)
end

for _, name in ipairs(names) do
  local tenant = string.match(name, "^tenant:([^:]+)$")
  if tenant then migrateTenant(tenant) end
  local owner, runId = string.match(name, "^run:([^:]+):([^:]+)$")
  if owner then migrateRun(owner, runId) end
  local keeper, digest = string.match(name, "^wf:run:idempotency:([^:]+):([^:]+)$")
  if keeper then migrateKey(keeper, digest) end
  local proved = owner or keeper
  if proved then
    redis.call("ZADD", start .. "due", "LT", string.format("%.0f", nowMs + proveEveryMs), "proof " .. proved .. " ")
  end
end
redis.call("SET", KEYS[1], "2")
return { "migrated", now }
