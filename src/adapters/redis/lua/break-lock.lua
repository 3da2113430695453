#!lua flags=allow-oom
--[[
  Takes a lock from its holder if that has the fence given, adds an event row, and hands the lock on to the first in its
  queue.
  KEYS[1] lock: "<token> <instance> <fence>[ <owner>]", expires with the grant
  KEYS[2] grant: "<token> <instance> <fence>[ <owner>] held|released|broken", the memory of the last grant
  KEYS[3] fence: the partition's last fence, never expires
  KEYS[4] tenant: hash with stopped, revoked ("" means not set)
  KEYS[5] events: stream with ids "0-<sequence>"
  KEYS[6] queue: sorted set of tokens by their place; this key and the following are absent for the lock of a run
  KEYS[7] tickets: hash of "<ttlMs> <instance> <owner or -> <credential or ->" by token
  KEYS[8] ends: sorted set of tokens by the time until which their place is kept
  KEYS[9] endings: sorted set of what has ended lately, by how long it is remembered (parts/lock-queue.lua)
  KEYS[10] locks: sorted set of the locks that are held, all with score 0
  KEYS[11] due: sorted set of "<kind> <tenant> <subject>" by time
  KEYS[12] held: sorted set of the tenant's public locks by when they end; this key and the next only for a public lock
  KEYS[13] waiting: sorted set of "<token> <lock>" of the tickets for the tenant's public locks, by when they end
  ARGV[2] fence  ARGV[3] grantMemoryMs  ARGV[4] "stoppable" or ""  ARGV[5] tenant
  ARGV[6] the lock's name in the list of locks, or ""  ARGV[7] the lock's name  ARGV[8] actor  ARGV[9] reason
  ARGV[10] eventsMax  ARGV[11] credential's word or ""
  Returns {"broken", now}, {"broken", now, new holder's token, its fence, expiresInMs}, {"superseded", now, "fence", n},
  {"free", now}, {"unauthenticated", now} or {"too_late", now}
]]
--@include clock
local nowUs = time[1] * 1000000 + time[2]

local lockKey, grantKey, fenceKey, tenantKey = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local queueKey, ticketsKey, endsKey, endingsKey = KEYS[6], KEYS[7], KEYS[8], KEYS[9]
local locksKey, dueKey, heldKey, waitingKey = KEYS[10], KEYS[11], KEYS[12], KEYS[13]
local grantMemoryMs, stoppable, tenant, listed = ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local lock = redis.call("GET", lockKey)
local grant = redis.call("GET", grantKey)
local value, fence, state = string.match(grant or "", "^([^ ]+ [^ ]+ ([^ ]+).-) ([^ ]+)$")
if fence == ARGV[2] and state == "broken" then return { "broken", now } end
--@include lock-queue
if queueKey and grant and fence ~= ARGV[2] and isEnded("broken " .. ARGV[2]) then return { "broken", now } end
if ARGV[11] ~= "" and grant and string.find(redis.call("HGET", tenantKey, "revoked") or "", " " .. ARGV[11] .. " ", 1, true) then
  return { "unauthenticated", now }
end
if not lock then return { "free", now } end
if fence ~= ARGV[2] then return { "superseded", now, "fence", tonumber(fence) } end

if waitingKey then redis.call("ZCARD", waitingKey) end -- Refuses a key of another type while nothing is written yet.
--@include find-heir
--@include plan-grant
if newToken then planEnding() end
-- The row goes first: it is the only write that Redis can refuse, and before it nothing has happened. The stream counts.
redis.call("XADD", KEYS[5], "MAXLEN", "~", ARGV[10], "0-*",
  "at", now, "type", "lock_broken", "subject", ARGV[7], "actor", ARGV[8], "detail", ARGV[9])
if newToken then
  writeEnding("broken " .. fence)
  writeDrop(newToken)
  --@include write-grant
  return { "broken", now, newToken, nextFence, tonumber(newTtlMs) }
end
redis.call("SET", grantKey, value .. " broken", "PX", grantMemoryMs)
redis.call("DEL", lockKey)
if listed ~= "" then redis.call("ZREM", locksKey, listed) end
if heldKey then redis.call("ZREM", heldKey, listed) end
return { "broken", now }
