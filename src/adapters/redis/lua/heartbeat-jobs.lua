#!lua flags=allow-oom
--[[
  Extends claims, with an answer for each. Allowed without memory, since a worker that cannot extend its claim loses its work.
  KEYS[1] tenant: hash with stopped ("true" or not), limits (see parts/places.lua) and budgets
  KEYS[2] due: sorted set of "<kind> <tenant> <subject>" by the time at which the sweep handles it
  KEYS[3] running: sorted set of the jobs that run and are counted
  KEYS[4] start of all keys of the partition: the budgets that pay for a job are only known here
  KEYS from 5 on: the run of each beat: hash of the header, "job:<id>" and "charge:<id>"
  ARGV[2] tenant
  ARGV from 3 on: jobId, token, leaseMs, progress ("-" leaves it as it is), usage (each " <unit>=<amount>", or "-") of each beat
  Returns {"judged", now, answers} or {"too_late", now}; an answer is "extended", "extended_stop", "voided", "lost", or
  "over " and the budget that is overspent
]]
--@include clock

--@include job-text

local settings = redis.call("HMGET", KEYS[1], "stopped", "limits", "budgets")
local stopped, runningKey, limits, start, dueKey = settings[1] == "true", KEYS[3], settings[2] or "", KEYS[4], KEYS[2]
local known = nil
local eventsMax = "0" -- A heartbeat spends nothing, and tells the feed nothing.
local function settingsOf(tenant)
  return tenant.settings
end
local function checkSet(key)
  redis.call("ZCARD", key)
end
--@include use-limits
--@include worker-word
--@include places
redis.call("ZCARD", KEYS[2]) -- Refuses a key of another type while nothing is written yet.
local texts, extended, answers = {}, {}, {}
local charges = nil
for index = 3, #ARGV, 5 do
  local jobId, leaseMs, newProgress, usage = ARGV[index], ARGV[index + 2], ARGV[index + 3], ARGV[index + 4]
  local runKey = KEYS[5 + (index - 3) / 5]
  local text = texts[jobId] or redis.call("HGET", runKey, "job:" .. jobId)
  local state, republished, token, worker, fence, claimedAt, _, report, progress, createdAt, topic, spec, inputKey =
    string.match(text or "", jobPattern)
  if token ~= ARGV[index + 1] or (state ~= "claimed" and state ~= "voided") then
    answers[#answers + 1] = "lost"
  elseif state == "voided" then
    answers[#answers + 1] = "voided"
  else
    local expiresAt = string.format("%.0f", nowMs + leaseMs)
    if newProgress ~= "-" then progress = newProgress end
    -- A job that ran before the tenant had limits is counted from here on.
    local place
    if limits ~= "" and not select(2, readWorker(worker)) then
      local pool, counted = places.counted(worker)
      place, worker = places.take(topic, pool, jobId), counted
    end
    text = table.concat({ state, republished, token, worker, fence, claimedAt, expiresAt, report, progress,
      createdAt, topic, spec, inputKey }, " ")
    texts[jobId] = text
    extended[#extended + 1] = { runKey = runKey, jobId = jobId, text = text, expiresAt = expiresAt, place = place }
    local stop, overspent = stopped or redis.call("HGET", runKey, "cancel"), nil
    if usage ~= "-" and select(3, readWorker(worker)) then
      local _, _, meters = useLimits()
      known = known or { id = ARGV[2], settings = { budgets = settings[3] or "" } }
      charges = charges or {}
      local found = charges[jobId] or redis.call("HGET", runKey, "charge:" .. jobId)
      local charge = found and meters.parse(found)
      if charge then
        overspent = meters.hear(known, charge, meters.amountsOf(usage))
        charges[jobId] = meters.textOf(charge)
        extended[#extended].charge = charges[jobId]
      end
    end
    answers[#answers + 1] = overspent and "over " .. overspent or stop and "extended_stop" or "extended"
  end
end

if limitsInUse then
  local commands = {}
  limitsInUse.plan(known, commands)
  for _, command in ipairs(commands) do redis.call(unpack(command)) end
end
for _, job in ipairs(extended) do
  redis.call("HSET", job.runKey, "job:" .. job.jobId, job.text)
  redis.call("ZADD", KEYS[2], job.expiresAt, "claim " .. ARGV[2] .. " " .. job.jobId)
  if job.place then redis.call(unpack(job.place)) end
  if job.charge then redis.call("HSET", job.runKey, "charge:" .. job.jobId, job.charge) end
end
return { "judged", now, answers }
