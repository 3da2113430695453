#!lua
--[[
  Extends a lock that this token holds.
  KEYS[1] lock: "<token> <instance> <fence>[ <owner>]", expires with the grant
  KEYS[2] grant: "<token> <instance> <fence>[ <owner>] held|released|broken", the memory of the last grant
  KEYS[3] held: sorted set of the tenant's public locks by when they end; only for a public lock
  ARGV[2] token  ARGV[3] ttlMs  ARGV[4] grantMemoryMs  ARGV[5] the lock's name in the list of locks
  Returns {"renewed", now, "fence", n}, {"not_owned", now, "superseded"|"ended"} or {"too_late", now}
]]
--@include clock

local lock = redis.call("GET", KEYS[1])
local grant = redis.call("GET", KEYS[2])
if not grant then return { "not_owned", now, "superseded" } end
local token, fence, state = string.match(grant, "^([^ ]+) [^ ]+ ([^ ]+).- ([^ ]+)$")
if token ~= ARGV[2] then return { "not_owned", now, "superseded" } end
if not lock then return { "not_owned", now, state == "broken" and "superseded" or "ended" } end

local memoryMs = string.format("%.0f", ARGV[3] + ARGV[4])
-- It goes first: it is the only write here that Redis can refuse, and before it nothing has happened.
if KEYS[3] then redis.call("ZADD", KEYS[3], string.format("%.0f", nowMs + ARGV[3]), ARGV[5]) end
redis.call("PEXPIRE", KEYS[1], ARGV[3])
redis.call("PEXPIRE", KEYS[2], memoryMs)
return { "renewed", now, "fence", tonumber(fence) }
