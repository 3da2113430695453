#!lua flags=allow-oom
--[[
  Handles what is due in one partition, at most 100 things, and says what a process must do next. Writes nothing when
  nothing is due. Each thing is a transition of its own: its handler reads everything first, so that one which meets a
  key of a wrong type has written nothing. Such a thing is put off by attentionMs and does not stop the others. What
  would take too long stays due: a removal or a proof may cost as much as ten other things.
  KEYS[1] what every key of the partition begins with: tenants and runs are only known here
  KEYS[2] due: sorted set of "<kind> <tenant> <subject>" by the time at which the sweep handles it
  KEYS[3] swept: when the sweep last handled something
  ARGV[1] notAfterMs  ARGV[2] sweepEveryMs  ARGV[3] attentionMs  ARGV[4] republishAfterMs  ARGV[5] republishAfterMaxMs
  ARGV[6] deadLetterRetentionMs  ARGV[7] proveEveryMs
  Returns {"swept", now, lostClaims, waiting, unclaimed, repairs}, {"not_due", now} or {"too_late", now}; waiting holds {tenant, run} of each, unclaimed {tenant, job id, job's text}, repairs {tenant,
  repair, run}
]]
local time = redis.call("TIME")
local nowMs = time[1] * 1000 + math.floor(time[2] / 1000)
local now = string.format("%.0f", nowMs)
if nowMs > tonumber(ARGV[1]) then return { "too_late", now } end

local start, dueKey = KEYS[1], KEYS[2]
local settings = {
  attentionMs = tonumber(ARGV[3]),
  republishAfterMs = tonumber(ARGV[4]),
  republishAfterMaxMs = tonumber(ARGV[5]),
  deadLetterRetentionMs = tonumber(ARGV[6]),
  proveEveryMs = tonumber(ARGV[7]),
}
-- `work` counts calls to Redis, as far as they differ: 1,200 take 1.5 to 2 ms.
local found = { waiting = {}, places = {}, unclaimed = {}, repairs = {}, lostClaims = 0, work = 0 }
local workMax = 1200

--@include terminal
--@include encode-name
--@include remove-run
--@include sweep-runs
--@include sweep-proofs
--@include lock-names
--@include sweep-locks
local handlers = {
  attention = visitRun,
  claim = loseClaim,
  timer = fireTimer,
  unclaimed = publishAgain,
  retention = removeEnded,
  letter = removeExpiredLetter,
  proof = proveTenant,
  lock = visitLock,
}

-- A kind that only a newer version knows is put off like a thing that cannot be read.
local function handle(member)
  local kind, tenant, subject = string.match(member, "^([^ ]+) ([^ ]+) (.*)$")
  found.work = found.work + 8
  redis.call("ZREM", dueKey, member)
  if not pcall(handlers[kind], tenant, subject) then
    redis.call("ZADD", dueKey, string.format("%.0f", nowMs + settings.attentionMs), member)
  end
end

local due = redis.call("ZRANGE", dueKey, "-inf", now, "BYSCORE", "LIMIT", "0", "100")
if #due > 0 then
  local swept = tonumber(redis.call("GET", KEYS[3]) or "")
  if swept and nowMs - swept < tonumber(ARGV[2]) then return { "not_due", now } end
  redis.call("SET", KEYS[3], now)
  for _, member in ipairs(due) do
    handle(member)
    if found.work > workMax then break end
  end
end
return { "swept", now, found.lostClaims, found.waiting, found.unclaimed, found.repairs }
