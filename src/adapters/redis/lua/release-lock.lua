#!lua flags=allow-oom
--[[
  Gives a lock back if this token holds it, and remembers that it did; the first in its queue is granted it at once.
  Without the lock, gives back the token's place in the queue.
  KEYS[1] lock: "<token> <instance> <fence>[ <owner>]", expires with the grant
  KEYS[2] grant: "<token> <instance> <fence>[ <owner>] held|released|broken", the memory of the last grant
  KEYS[3] fence: the partition's last fence, never expires
  KEYS[4] tenant: hash with stopped, revoked ("" means not set)
  KEYS[5] queue: sorted set of tokens by their place; this key and the following are absent for the lock of a run
  KEYS[6] tickets: hash of "<ttlMs> <instance> <owner or -> <credential or ->" by token
  KEYS[7] ends: sorted set of tokens by the time until which their place is kept
  KEYS[8] endings: sorted set of what has ended lately, by how long it is remembered (parts/lock-queue.lua)
  KEYS[9] locks: sorted set of the locks that are held, all with score 0
  KEYS[10] due: sorted set of "<kind> <tenant> <subject>" by time
  KEYS[11] held: sorted set of the tenant's public locks by when they end; this key and the next only for a public lock
  KEYS[12] waiting: sorted set of "<token> <lock>" of the tickets for the tenant's public locks, by when they end
  ARGV[2] token  ARGV[3] grantMemoryMs  ARGV[4] "stoppable" or ""  ARGV[5] tenant
  ARGV[6] the lock's name in the list of locks, or ""
  Returns {"released", now}, {"released", now, new holder's token, its fence, expiresInMs}, {"not_owned", now} or
  {"too_late", now}
]]
--@include clock
local nowUs = time[1] * 1000000 + time[2]

local lockKey, grantKey, fenceKey, tenantKey = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local queueKey, ticketsKey, endsKey, endingsKey, locksKey, dueKey = KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10]
local heldKey, waitingKey = KEYS[11], KEYS[12]
local grantMemoryMs, stoppable, tenant, listed = ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local lock = redis.call("GET", lockKey)
local grant = redis.call("GET", grantKey)
local value, token, state = string.match(grant or "", "^(([^ ]+) [^ ]+ [^ ]+.-) ([^ ]+)$")
if token == ARGV[2] and state == "released" then return { "released", now } end
--@include lock-queue
if not lock or token ~= ARGV[2] then
  if not queueKey then return { "not_owned", now } end
  local hasTicket = queued > #silent and not isSilent[ARGV[2]] and redis.call("ZSCORE", queueKey, ARGV[2])
  if not hasTicket then
    return { isEnded("given " .. ARGV[2]) and "released" or "not_owned", now }
  end
  redis.call("HLEN", ticketsKey) -- Refuses a key of another type while nothing is written yet.
  if waitingKey then redis.call("ZCARD", waitingKey) end
  planEnding()
  writeDrop(ARGV[2])
  writeEnding("given " .. ARGV[2])
  return { "released", now }
end

--@include find-heir
if newToken then
  --@include plan-grant
  if waitingKey then redis.call("ZCARD", waitingKey) end
  planEnding()
  writeEnding("given " .. token)
  writeDrop(newToken)
  --@include write-grant
  return { "released", now, newToken, nextFence, tonumber(newTtlMs) }
end
if heldKey then redis.call("ZCARD", heldKey) end -- Refuses a key of another type while nothing is written yet.
-- The list goes first: it is the only write here that Redis can refuse, and before it nothing has happened.
if listed ~= "" then redis.call("ZREM", locksKey, listed) end
if heldKey then redis.call("ZREM", heldKey, listed) end
redis.call("SET", grantKey, value .. " released", "PX", grantMemoryMs)
redis.call("DEL", lockKey)
return { "released", now }
