#!lua flags=allow-oom
--[[
  Takes a lock from its holder if that has the fence given, adds an audited row, and hands the lock on to the first in its
  queue.
  KEYS[1] lock: "<token> <instance> <fence>[ <owner>]", expires with the grant
  KEYS[2] grant: "<token> <instance> <fence>[ <owner>] held|released|broken", the memory of the last grant
  KEYS[3] fence: the partition's last fence, never expires
  KEYS[4] tenant: hash with stopped, revoked ("" means not set)
  KEYS[5] events: stream with ids "0-<sequence>"
  KEYS[6] trail: stream of the audit records, with ids "0-<sequence>"
  KEYS[7] queue: sorted set of tokens by their place; this key and the following are absent for the lock of a run
  KEYS[8] tickets: hash of "<ttlMs> <instance> <owner or -> <credential or ->" by token
  KEYS[9] ends: sorted set of tokens by the time until which their place is kept
  KEYS[10] endings: sorted set of what has ended lately, by how long it is remembered (parts/lock-queue.lua)
  KEYS[11] locks: sorted set of the locks that are held, all with score 0
  KEYS[12] due: sorted set of "<kind> <tenant> <subject>" by time
  KEYS[13] held: sorted set of the tenant's public locks by when they end; this key and the next only for a public lock
  KEYS[14] waiting: sorted set of "<token> <lock>" of the tickets for the tenant's public locks, by when they end
  ARGV[2] fence  ARGV[3] grantMemoryMs  ARGV[4] "stoppable" or ""  ARGV[5] tenant
  ARGV[6] the lock's name in the list of locks, or ""  ARGV[7] the lock's name  ARGV[8] actor  ARGV[9] reason
  ARGV[10] eventsMax  ARGV[11] credential's word or ""  ARGV[12] trailMax
  Returns {"broken", now}, {"broken", now, new holder's token, its fence, expiresInMs}, {"superseded", now, "fence", n},
  {"free", now}, {"unauthenticated", now} or {"too_late", now}
]]
--@include clock
local nowUs = time[1] * 1000000 + time[2]

local lockKey, grantKey, fenceKey, tenantKey = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local queueKey, ticketsKey, endsKey, endingsKey = KEYS[7], KEYS[8], KEYS[9], KEYS[10]
local locksKey, dueKey, heldKey, waitingKey = KEYS[11], KEYS[12], KEYS[13], KEYS[14]
local eventsKey, trailKey, eventsMax, trailMax = KEYS[5], KEYS[6], ARGV[10], ARGV[12]
--@include add-audited
local grantMemoryMs, stoppable, tenant, listed = ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local lock = redis.call("GET", lockKey)
local grant = redis.call("GET", grantKey)
local value, token, fence, state = string.match(grant or "", "^(([^ ]+) [^ ]+ ([^ ]+).-) ([^ ]+)$")
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
addAudited("lock_broken", ARGV[7], ARGV[8], ARGV[9])
if newToken then
  writeEnding("broken " .. fence)
  writeEnding("over " .. token)
  writeDrop(newToken)
  --@include write-grant
  return { "broken", now, newToken, nextFence, tonumber(newTtlMs) }
end
redis.call("SET", grantKey, value .. " broken", "PX", grantMemoryMs)
redis.call("DEL", lockKey)
if listed ~= "" then redis.call("ZREM", locksKey, listed) end
if heldKey then redis.call("ZREM", heldKey, listed) end
return { "broken", now }
