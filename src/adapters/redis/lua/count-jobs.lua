#!lua flags=no-writes
--[[
  Counts the jobs of some topics and pools that run, as far as they are counted, and those of the topics that wait.
  KEYS[1] running: sorted set of "t:<topic> <job>" and "p:<pool> <job>", all with score 0
  KEYS[2] prefix of ready keys: sorted sets of job ids
  ARGV[2] number of topics
  ARGV from 3 on: the topics, then the pools
  Returns {"counted", now, running and waiting of each topic in turn, running of each pool} or {"too_late", now}
]]
--@include clock

local function running(set)
  return redis.call("ZLEXCOUNT", KEYS[1], "[" .. set .. " ", "(" .. set .. "!")
end

local lastTopic = 2 + ARGV[2]
local topics, pools = {}, {}
for index = 3, lastTopic do
  topics[#topics + 1] = running("t:" .. ARGV[index])
  topics[#topics + 1] = redis.call("ZCARD", KEYS[2] .. ARGV[index])
end
for index = lastTopic + 1, #ARGV do pools[#pools + 1] = running("p:" .. ARGV[index]) end
return { "counted", now, topics, pools }
