#!lua
--[[
  Compares a partition's schema version with ours and writes ours where there is none yet. It has no notAfterMs:
  it may be repeated at any time, and its answer is where a caller learns the store's time. It also asks for every
  command that our scripts use: a user who may not run one of them would end a script between two writes.
  KEYS[1] schema: the version that the partition's keys are written in, never expires
  ARGV[1] ourVersion
  ARGV[2..] the commands that our scripts use
  Returns {"current", now}, {"older", now, version}, {"newer", now, version}, {"unreadable", now, value}
  or {"denied", now, command}
]]
local time = redis.call("TIME")
local now = string.format("%.0f", time[1] * 1000 + math.floor(time[2] / 1000))

for index = 2, #ARGV do
  if not redis.acl_check_cmd(ARGV[index], KEYS[1]) then return { "denied", now, ARGV[index] } end
end

local found = redis.call("GET", KEYS[1])
if not found then
  redis.call("SET", KEYS[1], ARGV[1])
  return { "current", now }
end
local version = tonumber(found)
if not version then return { "unreadable", now, found } end
if version > tonumber(ARGV[1]) then return { "newer", now, found } end
if version < tonumber(ARGV[1]) then return { "older", now, found } end
return { "current", now }
