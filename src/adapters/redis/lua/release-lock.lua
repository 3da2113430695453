#!lua flags=allow-oom
--[[
  Gives a lock back if this token holds it, and remembers that it did.
  KEYS[1] lock: "<token> <instance> <fence>", expires with the grant
  KEYS[2] grant: "<token> <instance> <fence> held|released", the memory of the last grant
  ARGV[1] notAfterMs  ARGV[2] token  ARGV[3] grantMemoryMs
  Returns {"released", now}, {"not_owned", now} or {"too_late", now}
]]
local time = redis.call("TIME")
local nowMs = time[1] * 1000 + math.floor(time[2] / 1000)
local now = string.format("%.0f", nowMs)
if nowMs > tonumber(ARGV[1]) then return { "too_late", now } end

local lock = redis.call("GET", KEYS[1])
local grant = redis.call("GET", KEYS[2])
if not grant then return { "not_owned", now } end
local value, token, state = string.match(grant, "^(([^ ]+) [^ ]+ [^ ]+) ([^ ]+)$")
if token ~= ARGV[2] then return { "not_owned", now } end
if state == "released" then return { "released", now } end
if not lock then return { "not_owned", now } end

redis.call("SET", KEYS[2], value .. " released", "PX", ARGV[3])
redis.call("DEL", KEYS[1])
return { "released", now }
