#!lua
--[[
  The worker of a claim as a job's text holds it: its name, or ["<name>","<pool>"] for a job that is counted as running in
  that pool. The name is JSON, the pool is written as in keys. Behind the pool, which is empty then where nobody counts, there
  is ,1 of a claim that has a charge, and ,["<budget>"] of one that this budget cannot pay for.
  Sets: readWorker (given the word: the name, the pool or nil for a job that is not counted, and what is behind it or nil)
]]
local function readWorker(word)
  local name, pool, mark = string.match(word, '^%[(".*"),"([^"]*)"(.*)%]$')
  if not name then return word end
  return name, pool ~= "" and pool or nil, mark ~= "" and mark or nil
end
