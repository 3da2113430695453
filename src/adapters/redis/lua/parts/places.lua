#!lua
--[[
  Places of running jobs: whether one more may run, and what taking and leaving a place writes. Nothing is written here;
  by the time it is, the key has been read, so that it cannot fail.
  Reads: runningKey (sorted set of "t:<topic> <job>" and "p:<pool> <job>" of the jobs that run and are counted, all with
  score 0), limits (of the tenant, or "" without any: words between spaces, "t:<topic>=<max>", "p:<pool>=<max>",
  "d:<pool>" while it drains, "r:<pool>" if it is restricted to "o:<pool>/<topic>"), what `worker-word` sets
  Sets: places (a table of functions: refusal of a topic and a pool; take and leave of a topic, a pool and a job, which
  give the command to write; counted of a worker, which gives the pool in which its claim is counted, or nil, and the
  worker's word with it)
]]
local places = { changes = {} }

function places.change(set, by)
  places.changes[set] = (places.changes[set] or 0) + by
end

function places.running(set)
  local stored = redis.call("ZLEXCOUNT", runningKey, "[" .. set .. " ", "(" .. set .. "!")
  return stored + (places.changes[set] or 0)
end

function places.isFull(set)
  local _, last = string.find(limits, " " .. set .. "=", 1, true)
  return last and places.running(set) >= tonumber(string.match(limits, "^[0-9]+", last + 1))
end

function places.refusal(topic, pool)
  if limits == "" then return nil end
  if string.find(limits, " d:" .. pool .. " ", 1, true) then return "pool_draining" end
  local only = " o:" .. pool .. "/" .. topic .. " "
  if string.find(limits, " r:" .. pool .. " ", 1, true) and not string.find(limits, only, 1, true) then
    return "pool_without_topic"
  end
  if places.isFull("t:" .. topic) then return "topic_full" end
  return places.isFull("p:" .. pool) and "pool_full" or nil
end

function places.counted(worker)
  local name, pool, mark = readWorker(worker)
  if not pool and limits == "" then return nil, worker end
  pool = pool or "default"
  return pool, "[" .. name .. ',"' .. pool .. '"' .. (mark or "") .. "]"
end

function places.take(topic, pool, jobId)
  local ofTopic, ofPool = "t:" .. topic, "p:" .. pool
  if not redis.call("ZSCORE", runningKey, ofTopic .. " " .. jobId) then
    places.change(ofTopic, 1)
    places.change(ofPool, 1)
  end
  return { "ZADD", runningKey, 0, ofTopic .. " " .. jobId, 0, ofPool .. " " .. jobId }
end

function places.leave(topic, pool, jobId)
  local ofTopic, ofPool = "t:" .. topic, "p:" .. pool
  if redis.call("ZSCORE", runningKey, ofTopic .. " " .. jobId) then
    places.change(ofTopic, -1)
    places.change(ofPool, -1)
  end
  return { "ZREM", runningKey, ofTopic .. " " .. jobId, ofPool .. " " .. jobId }
end
