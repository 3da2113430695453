#!lua
--[[
  The worker of a claim as a job's text holds it: its name, or ["<name>","<pool>"] for a job that is counted as running in
  that pool. The name is JSON, the pool is written as in keys.
  Sets: readWorker (given the word: the name, the pool or nil for a job that is not counted)
]]
local function readWorker(word)
  local name, pool = string.match(word, '^%[(".*"),"([^"]*)"%]$')
  return name or word, pool
end
