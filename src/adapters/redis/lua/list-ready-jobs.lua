#!lua flags=no-writes
--[[
  Lists the jobs of a topic that wait for a worker, oldest first.
  KEYS[1] ready: sorted set of job ids by the time of their creation
  KEYS[2] prefix of run keys: a job's id begins with its run's
  ARGV[2] limit
  Returns {"listed", now, {id, job's text} of each} or {"too_late", now}
]]
--@include clock

local jobs = {}
for _, jobId in ipairs(redis.call("ZRANGE", KEYS[1], "-inf", "+inf", "BYSCORE", "LIMIT", "0", ARGV[2])) do
  local runId = string.match(jobId, "^[^:]*")
  local text = redis.call("HGET", KEYS[2] .. runId, "job:" .. jobId)
  -- A job goes with its run, which retention or a person may remove before anybody took the job.
  if text then jobs[#jobs + 1] = { jobId, text } end
end
return { "listed", now, jobs }
