#!lua
--[[
  Takes jobs for workers, an answer for each. A claim sees what the ones before it in the batch did.
  KEYS[1] tenant: hash with stopped ("true" or not), revoked (" <credential> <credential> "), limits (see parts/places.lua) and budgets
  KEYS[2] fence: the partition's last fence, never expires
  KEYS[3] due: sorted set of "<kind> <tenant> <subject>" by the time at which the sweep handles it
  KEYS[4] prefix of ready keys: sorted sets of job ids by the time of their creation; a job's text names its topic
  KEYS[5] running: sorted set of the jobs that run and are counted
  KEYS[6] start of all keys of the partition: which rates and budgets the claims count in is only known here
  KEYS from 7 on: the run of each claim: hash of the header, "job:<id>", "charge:<id>" and "record:<key>"
  ARGV[2] tenant  ARGV[3] credential, or ""
  ARGV from 4 on: jobId, token, worker (with its pool if it is not the default), leaseMs of each claim
  Returns {"judged", now, answers} or {"too_late", now}; an answer is {"claimed", fence, expiresInMs, job's text, input}
  or {"refused", because[, againInMs]}
]]
--@include clock
local nowUs = time[1] * 1000000 + time[2]

--@include job-text
--@include terminal

local settings = redis.call("HMGET", KEYS[1], "stopped", "revoked", "limits", "budgets")
local runningKey, limits, start, dueKey = KEYS[5], settings[3] or "", KEYS[6], KEYS[3]
local budgetsText, known = settings[4] or "", nil
local eventsMax = "0" -- A claim spends nothing, and tells the feed nothing.
local function settingsOf(tenant)
  return tenant.settings
end
local function checkSet(key)
  redis.call("ZCARD", key)
end
--@include use-limits
--@include worker-word
--@include places
local lastFence = tonumber(redis.call("GET", KEYS[2]) or 0)
redis.call("ZCARD", KEYS[3]) -- Refuses a key of another type while nothing is written yet, as ZSCORE does below.
local because
if ARGV[3] ~= "" and string.find(settings[2] or "", " " .. ARGV[3] .. " ", 1, true) then
  because = "credential_revoked"
elseif settings[1] == "true" then
  because = "tenant_stopped"
end

local function judge(runKey, state)
  if because then return because end
  if not state then return "not_found" end
  if state ~= "ready" then return state == "parked" and "budget_held" or "not_ready" end
  local run = redis.call("HMGET", runKey, "status", "cancel")
  if not run[1] or terminal[run[1]] then return "run_ended" end
  return run[2] and "run_cancelling"
end

local texts, taken, answers = {}, {}, {}
local parked = nil
for index = 4, #ARGV, 4 do
  local jobId, claimToken, claimWorker, leaseMs = ARGV[index], ARGV[index + 1], ARGV[index + 2], ARGV[index + 3]
  local runKey = KEYS[6 + index / 4]
  local text = texts[jobId] or redis.call("HGET", runKey, "job:" .. jobId)
  local state, republished, token, _, fence, _, expiresAt, report, progress, createdAt, topic, spec, inputKey =
    string.match(text or "", jobPattern)
  local refusal = not (state == "claimed" and token == claimToken) and judge(runKey, state)
  local pool, place, charge
  local againInMs = nil
  if state == "ready" and not refusal then
    pool, claimWorker = places.counted(claimWorker)
    refusal = pool and places.refusal(topic, pool)
    if not refusal and (budgetsText ~= "" or string.sub(spec, 1, 10) == '{"meter":"'
      or limits ~= "" and string.find(limits, " u:" .. topic .. "=", 1, true)) then
      local _, _, meters = useLimits()
      known = known or { id = ARGV[2], settings = { budgets = budgetsText } }
      local job = { topic = topic, spec = spec, id = jobId, createdAt = createdAt }
      local cost = meters.judge(known, limits, job)
      refusal, againInMs = cost.refusal, cost.againInMs
      if refusal then
        meters.keepRefused(known, job, cost)
      else
        charge, claimWorker = meters.take(known, job, cost, claimToken, claimWorker)
      end
      if cost.holds then
        local readyKey = KEYS[4] .. topic
        redis.call("ZSCORE", readyKey, jobId)
        text = table.concat({ "parked", republished, cost.holds.id, "- - - - -", progress, createdAt, topic, spec, inputKey }, " ")
        texts[jobId] = text
        parked = parked or {}
        parked[#parked + 1] = { runKey = runKey, jobId = jobId, text = text, readyKey = readyKey }
      end
    end
  end
  if refusal then
    answers[#answers + 1] = { "refused", refusal, againInMs }
  else
    if state == "ready" then
      local readyKey = KEYS[4] .. topic
      redis.call("ZSCORE", readyKey, jobId)
      if pool then place = places.take(topic, pool, jobId) end
      lastFence = math.max(lastFence + 1, nowUs)
      fence = string.format("%.0f", lastFence)
      expiresAt = string.format("%.0f", nowMs + leaseMs)
      text = table.concat({ "claimed", republished, claimToken, claimWorker, fence, now, expiresAt, report, progress,
        createdAt, topic, spec, inputKey }, " ")
      taken[#taken + 1] =
        { runKey = runKey, jobId = jobId, text = text, readyKey = readyKey, expiresAt = expiresAt, place = place,
          charge = charge }
    end
    texts[jobId] = text
    local input = redis.call("HGET", runKey, "record:" .. inputKey) or "null"
    local leftMs = string.format("%.0f", math.max(0, expiresAt - nowMs))
    answers[#answers + 1] = { "claimed", fence, leftMs, text, input }
  end
end

if limitsInUse then
  local commands = {}
  limitsInUse.plan(known, commands)
  for _, command in ipairs(commands) do redis.call(unpack(command)) end
end
for _, job in ipairs(parked or {}) do
  redis.call("HSET", job.runKey, "job:" .. job.jobId, job.text)
  redis.call("ZREM", job.readyKey, job.jobId)
  redis.call("ZREM", KEYS[3], "unclaimed " .. ARGV[2] .. " " .. job.jobId)
end
if #taken > 0 then redis.call("SET", KEYS[2], string.format("%.0f", lastFence)) end
for _, job in ipairs(taken) do
  redis.call("HSET", job.runKey, "job:" .. job.jobId, job.text)
  redis.call("ZREM", job.readyKey, job.jobId)
  redis.call("ZREM", KEYS[3], "unclaimed " .. ARGV[2] .. " " .. job.jobId)
  redis.call("ZADD", KEYS[3], job.expiresAt, "claim " .. ARGV[2] .. " " .. job.jobId)
  if job.place then redis.call(unpack(job.place)) end
  if job.charge then redis.call("HSET", job.runKey, "charge:" .. job.jobId, job.charge) end
end
return { "judged", now, answers }
