#!lua
--[[
  Takes a free lock, or finds that this token already holds it (without extending it).
  KEYS[1] lock: "<token> <instance> <fence>", expires with the grant
  KEYS[2] grant: "<token> <instance> <fence> held|released", outlives the lock, so that repeats are recognised
  KEYS[3] fence: the partition's last fence, never expires
  ARGV[1] notAfterMs  ARGV[2] token  ARGV[3] instance  ARGV[4] ttlMs  ARGV[5] grantMemoryMs
  Returns {"acquired", now, fence, expiresInMs}, {"busy", now, instance, freeInMs}, {"already_released", now}
  or {"too_late", now}
]]
local time = redis.call("TIME")
local nowUs = time[1] * 1000000 + time[2]
local nowMs = math.floor(nowUs / 1000)
local now = string.format("%.0f", nowMs)
if nowMs > tonumber(ARGV[1]) then return { "too_late", now } end

local lock = redis.call("GET", KEYS[1])
local grant = redis.call("GET", KEYS[2])
local lastFence = redis.call("GET", KEYS[3])
if lock then
  local token, instance, fence = string.match(lock, "^([^ ]+) ([^ ]+) ([^ ]+)$")
  local leftMs = redis.call("PTTL", KEYS[1])
  if token == ARGV[2] then return { "acquired", now, fence, leftMs } end
  return { "busy", now, instance, leftMs }
end
if grant then
  local token, state = string.match(grant, "^([^ ]+) [^ ]+ [^ ]+ ([^ ]+)$")
  if token == ARGV[2] and state == "released" then return { "already_released", now } end
end

local fence = string.format("%.0f", math.max((tonumber(lastFence) or 0) + 1, nowUs))
local value = ARGV[2] .. " " .. ARGV[3] .. " " .. fence
local memoryMs = string.format("%.0f", ARGV[4] + ARGV[5])
redis.call("SET", KEYS[1], value, "PX", ARGV[4])
redis.call("SET", KEYS[2], value .. " held", "PX", memoryMs)
redis.call("SET", KEYS[3], fence)
return { "acquired", now, fence, tonumber(ARGV[4]) }
