#!lua flags=allow-oom
--[[
  Extends claims, with an answer for each. Allowed without memory, since a worker that cannot extend its claim loses its work.
  KEYS[1] tenant: hash with stopped ("true" or not) and limits (see parts/places.lua)
  KEYS[2] due: sorted set of "<kind> <tenant> <subject>" by the time at which the sweep handles it
  KEYS[3] running: sorted set of the jobs that run and are counted
  KEYS from 4 on: the run of each beat: hash of the header and "job:<id>"
  ARGV[2] tenant
  ARGV from 3 on: jobId, token, leaseMs, progress ("-" leaves it as it is) of each beat
  Returns {"judged", now, answers} or {"too_late", now}; an answer is "extended", "extended_stop", "voided" or "lost"
]]
--@include clock

--@include job-text

local settings = redis.call("HMGET", KEYS[1], "stopped", "limits")
local stopped, runningKey, limits = settings[1] == "true", KEYS[3], settings[2] or ""
--@include worker-word
--@include places
redis.call("ZCARD", KEYS[2]) -- Refuses a key of another type while nothing is written yet.
local texts, extended, answers = {}, {}, {}
for index = 3, #ARGV, 4 do
  local jobId, leaseMs, newProgress = ARGV[index], ARGV[index + 2], ARGV[index + 3]
  local runKey = KEYS[4 + (index - 3) / 4]
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
    local stop = stopped or redis.call("HGET", runKey, "cancel")
    answers[#answers + 1] = stop and "extended_stop" or "extended"
  end
end

for _, job in ipairs(extended) do
  redis.call("HSET", job.runKey, "job:" .. job.jobId, job.text)
  redis.call("ZADD", KEYS[2], job.expiresAt, "claim " .. ARGV[2] .. " " .. job.jobId)
  if job.place then redis.call(unpack(job.place)) end
end
return { "judged", now, answers }
