#!lua
--[[
  Takes a free lock, or finds that this token already holds it (without extending it). With ticketMs it keeps its place in
  the queue of a lock that it cannot have yet, without it gives it up: only the first in the queue may take a free lock.
  KEYS[1] lock: "<token> <instance> <fence>[ <owner>]", expires with the grant
  KEYS[2] grant: "<token> <instance> <fence>[ <owner>] held|released|broken", outlives the lock: repeats are recognised
  KEYS[3] fence: the partition's last fence, never expires
  KEYS[4] tenant: hash with stopped, revoked, quota:locks, quota:lock_tickets ("" means not set)
  KEYS[5] queue: sorted set of tokens by their place; this key and the following are absent for the lock of a run
  KEYS[6] tickets: hash of "<ttlMs> <instance> <owner or -> <credential or ->" by token
  KEYS[7] ends: sorted set of tokens by the time until which their place is kept
  KEYS[8] endings: sorted set of what has ended lately, by how long it is remembered (parts/lock-queue.lua)
  KEYS[9] locks: sorted set of the locks that are held, all with score 0
  KEYS[10] due: sorted set of "<kind> <tenant> <subject>" by time
  KEYS[11] held: sorted set of the tenant's public locks by when they end; this key and the next only for a public lock
  KEYS[12] waiting: sorted set of "<token> <lock>" of the tickets for the tenant's public locks, by when they end
  ARGV[2] token  ARGV[3] instance  ARGV[4] ttlMs  ARGV[5] grantMemoryMs  ARGV[6] ticketMs or ""
  ARGV[7] owner's word or "-"  ARGV[8] credential's word or ""  ARGV[9] "stoppable" or ""  ARGV[10] tenant
  ARGV[11] the lock's name in the list of locks, or ""  ARGV[12] ticketsMax  ARGV[13] quota of locks
  ARGV[14] quota of tickets
  Returns {"acquired", now, "fence", n, "expiresInMs", n}, {"busy", now, "instance", text, "freeInMs", n[, "ahead", n]},
  {"already_released", now}, {"unauthenticated", now}, {"tenant_stopped", now}, {"lock_quota_reached", now, "quota", n},
  {"ticket_quota_reached", now, "quota", n} or {"too_late", now}
]]
--@include clock
local nowUs = time[1] * 1000000 + time[2]

local lockKey, grantKey, fenceKey, tenantKey = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local queueKey, ticketsKey, endsKey, endingsKey, locksKey, dueKey = KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10]
local heldKey, waitingKey = KEYS[11], KEYS[12]
local token, instance, ttlMs, grantMemoryMs, ticketMs = ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local owner, credential, stoppable, tenant, listed = ARGV[7], ARGV[8], ARGV[9], ARGV[10], ARGV[11]
local queues = queueKey and ticketMs ~= ""
local lock = redis.call("GET", lockKey)
local grant = redis.call("GET", grantKey)
local holderInstance, leftMs = "", 0
if lock then
  local holder, fence
  holder, holderInstance, fence = string.match(lock, "^([^ ]+) ([^ ]+) ([^ ]+)")
  leftMs = redis.call("PTTL", lockKey)
  if holder == token then return { "acquired", now, "fence", tonumber(fence), "expiresInMs", leftMs } end
end
local lastToken, lastState = string.match(grant or "", "^([^ ]+) [^ ]+ [^ ]+.- ([^ ]+)$")
if lastToken == token then return { "already_released", now } end
--@include lock-queue
-- The control plane's own tokens are used for one try each: of these only the last is remembered.
local remembers = queues or heldKey
if remembers and (isEnded("given " .. token) or isEnded("over " .. token)) then return { "already_released", now } end
local settings = {}
if credential ~= "" or stoppable ~= "" then
  settings = redis.call("HMGET", tenantKey, "stopped", "revoked", "quota:locks", "quota:lock_tickets")
  if credential ~= "" and string.find(settings[2] or "", " " .. credential .. " ", 1, true) then
    return { "unauthenticated", now }
  end
  if stoppable ~= "" and settings[1] == "true" then return { "tenant_stopped", now } end
end

local head = queued > #silent and firstTicket(function() return true end)
if not lock and (not head or head == token) then
  if heldKey then
    local quota = tonumber(settings[3] or "") or tonumber(ARGV[13])
    if redis.call("ZCOUNT", heldKey, now, "+inf") >= quota then return { "lock_quota_reached", now, "quota", quota } end
  end
  local newToken, newInstance, newTtlMs, newOwner = token, instance, ttlMs, owner
  --@include plan-grant
  local follows = remembers and lastToken
  if follows then planEnding() end
  if head then redis.call("HLEN", ticketsKey) end -- Refuses a key of another type while nothing is written yet.
  if head and waitingKey then redis.call("ZCARD", waitingKey) end
  if follows then writeEnding((lastState == "released" and "given " or "over ") .. lastToken) end
  if head then writeDrop(token) end
  --@include write-grant
  return { "acquired", now, "fence", tonumber(nextFence), "expiresInMs", tonumber(ttlMs) }
end

if not lock then holderInstance = string.match(redis.call("HGET", ticketsKey, head) or "", "^[^ ]+ ([^ ]+)") or "" end
local place = queued > #silent and not isSilent[token] and redis.call("ZSCORE", queueKey, token)
if not queues then
  if place then
    redis.call("HLEN", ticketsKey) -- Refuses a key of another type while nothing is written yet, as does the next line.
    if waitingKey then redis.call("ZCARD", waitingKey) end
    writeDrop(token)
  end
  return { "busy", now, "instance", holderInstance, "freeInMs", leftMs }
end
if not place and waitingKey then
  local quota = tonumber(settings[4] or "") or tonumber(ARGV[14])
  if redis.call("ZCOUNT", waitingKey, now, "+inf") >= quota then return { "ticket_quota_reached", now, "quota", quota } end
end
if not place and queued - #silent >= tonumber(ARGV[12]) then
  return { "busy", now, "instance", holderInstance, "freeInMs", leftMs }
end

redis.call("HLEN", ticketsKey) -- Refuses a key of another type while nothing is written yet, as does the next line.
redis.call("ZCARD", endsKey)
local over = waitingKey and redis.call("ZRANGE", waitingKey, "-inf", "(" .. now, "BYSCORE", "LIMIT", "0", "100") or {}
local comes = not place
if comes then
  local last = redis.call("ZRANGE", queueKey, -1, -1, "WITHSCORES")
  place = string.format("%.0f", (last[2] or 0) + 1)
end
if #silent > 0 then writeDrop(table.remove(silent)) end
redis.call("ZADD", queueKey, place, token)
redis.call("ZADD", endsKey, string.format("%.0f", nowMs + ticketMs), token)
if #over > 0 then redis.call("ZREM", waitingKey, unpack(over)) end
if waitingKey then
  redis.call("ZADD", waitingKey, string.format("%.0f", nowMs + ticketMs), token .. " " .. listed)
  redis.call("PEXPIRE", waitingKey, "61000")
end
local word = credential == "" and "-" or credential
redis.call("HSET", ticketsKey, token, ttlMs .. " " .. instance .. " " .. owner .. " " .. word)
-- No place is kept for longer than a minute.
for _, key in ipairs({ queueKey, endsKey, ticketsKey }) do redis.call("PEXPIRE", key, "61000") end
local ahead = redis.call("ZRANK", queueKey, token)
return { "busy", now, "instance", holderInstance, "freeInMs", leftMs, "ahead", ahead }
