#!lua
--[[
  Removes an ended run and all that belongs to it, 500 belongings at a time; the run itself goes last, so that a part
  left over is found again. Locks are removed unseen, which cannot fail: reading them would be four calls a job.
  A job of it that still runs leaves its place, and its charge is settled; one that is parked leaves its line.
  Reads: start (what every key of the partition begins with), nowMs, encodeName, tenantOf, useLimits, limitsInUse
  Sets: readWorker, planRemoval (of a tenant, a run and whether it leaves a grave; it only reads. In the plan that it gives
  are the keys of locks, what the removal costs in calls to Redis as work, and whether it is only a part as more),
  removePlanned (of that plan; it cannot fail)
]]
local removedMax = 500

-- A start without a key that was sent twice must not make the run again: for so long after its admission a grave is left.
local graveMs = 60000
local headerFields = { "workflow", "definition", "status", "version", "actor", "admittedAt", "updatedAt", "endedAt",
  "cancel", "reservation", "fingerprint", "drains", "drainsSince", "parent", "treeSize", "removing", "gates", "place" }

-- Locks end by themselves: a day after its run's end a job has none, and its run need not be searched for jobs.
local locksEndMs = 86400000

-- How many belongings there are, whether locks of the jobs may still be there, and the header.
local function countBelongings(runKey)
  local header = redis.call("HMGET", runKey, unpack(headerFields))
  local count = redis.call("HLEN", runKey)
  for index = 1, #headerFields do
    if header[index] then count = count - 1 end
  end
  return count, nowMs - (header[8] or nowMs) < locksEndMs, header
end

-- Names of all belongings, or of enough of them: of a large run some at random, since reading all would take too long.
local function namesOf(runKey, count)
  if count <= 2000 then return redis.call("HKEYS", runKey) end
  return redis.call("HRANDFIELD", runKey, removedMax + #headerFields)
end

-- The first of them in the order in which they go: records, rows, jobs, charges. What has another name is the header's.
local function firstBelongings(names)
  local records, rows, jobs, charges, first = {}, {}, {}, {}, {}
  for _, name in ipairs(names) do
    local kind = string.sub(name, 1, 4)
    local list = kind == "reco" and records or kind == "row:" and rows or kind == "job:" and jobs or kind == "char" and charges
    if list then list[#list + 1] = name end
  end
  for _, list in ipairs({ records, rows, jobs, charges }) do
    for index = 1, math.min(#list, removedMax - #first) do first[#first + 1] = list[index] end
  end
  return first
end

local function addJobLocks(locks, tenant, names)
  for _, name in ipairs(names) do
    if string.sub(name, 1, 4) == "job:" then
      local job = tenant .. ":" .. encodeName(string.sub(name, 5))
      local count = #locks
      locks[count + 1] = start .. "scheduler:job:" .. job
      locks[count + 2] = start .. "grant:job:" .. job
      locks[count + 3] = start .. "approval:" .. job
      locks[count + 4] = start .. "grant:approval:" .. job
    end
  end
end

--@include worker-word
-- A job that is parked leaves its line, and what a claim has taken or reserved is settled.
local function leaveLimits(tenant, runKey, jobId, text, mark)
  local known, _, budgets, meters = tenantOf(tenant), useLimits()
  local budget = string.match(text, "^parked [^ ]+ ([^ ]+)")
  if budget then budgets.unpark(known, budget, jobId) end
  local charge = mark and redis.call("HGET", runKey, "charge:" .. jobId)
  if charge then meters.settle(known, meters.parse(charge), "gone", {}) end
end

-- Where those of these jobs run that are counted.
local function placesOf(tenant, runKey, names)
  local members, jobs = {}, {}
  for _, name in ipairs(names) do
    if string.sub(name, 1, 4) == "job:" then jobs[#jobs + 1] = name end
  end
  for first = 1, #jobs, 900 do
    local last = math.min(#jobs, first + 899)
    for index, text in ipairs(redis.call("HMGET", runKey, unpack(jobs, first, last))) do
      local word, topic = string.match(text or "", "^claimed " .. string.rep("[^ ]+ ", 2) .. "([^ ]+) "
        .. string.rep("[^ ]+ ", 6) .. "([^ ]+)")
      local _, pool, mark = readWorker(word or "")
      if mark or string.sub(text or "", 1, 7) == "parked " then
        leaveLimits(tenant, runKey, string.sub(jobs[first + index - 1], 5), text, mark)
      end
      if pool then
        local jobId = string.sub(jobs[first + index - 1], 5)
        members[#members + 1] = "t:" .. topic .. " " .. jobId
        members[#members + 1] = "p:" .. pool .. " " .. jobId
      end
    end
  end
  return members
end

-- `buries` is for a removal that somebody asked for; retention comes long after every late duplicate.
local function planRemoval(tenant, runId, buries)
  local name = tenant .. ":" .. runId
  local runKey = start .. "run:" .. name
  local plan = { tenant = tenant, runId = runId, runKey = runKey, fields = {}, locks = {}, goes = {}, approvals = {} }
  local count, withLocks, header = countBelongings(runKey)
  local anyRunning = redis.call("ZCARD", start .. "running:" .. tenant) + redis.call("ZCARD", start .. "parked-lines:" .. tenant)
    + redis.call("HLEN", start .. "ledgers:" .. tenant) > 0
  local names = (count >= removedMax or withLocks or anyRunning) and namesOf(runKey, count) or {}
  if count >= removedMax then
    plan.fields = firstBelongings(names)
    plan.more = true
  else
    plan.approvals = redis.call("ZRANGE", start .. "approvals:" .. tenant, "[" .. runId .. ":", "(" .. runId .. ";",
      "BYLEX", "LIMIT", "0", string.format("%.0f", removedMax - count))
    plan.more = count + #plan.approvals == removedMax
    if plan.more then plan.fields = firstBelongings(names) end
  end
  if withLocks then addJobLocks(plan.locks, tenant, plan.more and plan.fields or names) end
  plan.places = anyRunning and placesOf(tenant, runKey, plan.more and plan.fields or names) or {}
  for _, id in ipairs(plan.approvals) do
    local key = start .. "approval-record:" .. tenant .. ":" .. id
    redis.call("HGET", key, "state") -- Refuses a key of another type, as the reads below do.
    plan.goes[#plan.goes + 1] = key
  end
  if not plan.more then
    redis.call("ZCARD", start .. "runs:" .. tenant)
    redis.call("LLEN", start .. "inbox:" .. name)
    plan.goes[#plan.goes + 1] = runKey
    local graveUntil = (header[6] or 0) + graveMs
    if buries and header[3] and nowMs < graveUntil then plan.grave = { header[3], graveUntil } end
    plan.goes[#plan.goes + 1] = start .. "inbox:" .. name
    plan.locks[#plan.locks + 1] = start .. "wf:run:lock:" .. name
    plan.locks[#plan.locks + 1] = start .. "grant:run:" .. name
  end
  plan.limits = {}
  if limitsInUse then limitsInUse.plan(tenantOf(tenant), plan.limits) end
  plan.work = math.floor(4 + #plan.approvals + (#names + #plan.locks + #plan.fields) / 4)
  return plan
end

local function unlinkAll(keys)
  for first = 1, #keys, 900 do
    redis.call("UNLINK", unpack(keys, first, math.min(#keys, first + 899)))
  end
end

local function removePlanned(plan)
  for _, command in ipairs(plan.limits) do redis.call(unpack(command)) end
  if #plan.fields > 0 then redis.call("HDEL", plan.runKey, unpack(plan.fields)) end
  if #plan.approvals > 0 then redis.call("ZREM", start .. "approvals:" .. plan.tenant, unpack(plan.approvals)) end
  unlinkAll(plan.goes)
  unlinkAll(plan.locks)
  for first = 1, #plan.places, 900 do
    redis.call("ZREM", start .. "running:" .. plan.tenant, unpack(plan.places, first, math.min(#plan.places, first + 899)))
  end
  if plan.more then
    redis.call("HSET", plan.runKey, "removing", "true")
    return
  end
  redis.call("ZREM", start .. "runs:" .. plan.tenant, plan.runId)
  local retention = "retention " .. plan.tenant .. " " .. plan.runId
  if not plan.grave then
    redis.call("ZREM", start .. "due", retention)
    return
  end
  redis.call("HSET", plan.runKey, "buried", plan.grave[1])
  redis.call("PEXPIRE", plan.runKey, string.format("%.0f", plan.grave[2] - nowMs))
  redis.call("ZADD", start .. "due", string.format("%.0f", plan.grave[2]), retention)
end
