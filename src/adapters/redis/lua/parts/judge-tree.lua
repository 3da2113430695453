#!lua
--[[
  Reads the runs that a change starts, and whether the tree of runs has room for them; writes nothing.
  The tree, only after "tree" and then at the end of all arguments: numbers of children and of runs to
  cancel; children of 7 (id, workflow, definition, step's word, attempt, the entry that starts it, number of records)
  with fields and bodies of the records; ids to cancel; last, the number of all these arguments
  Reads: at (index of the change, see plan-change), start, tenant, runId, parent ("<run> <step's word> <attempt> <root>
  <depth>" of a child run, or false), treeSize (of the run itself, or false), runsPerRootMax
  Sets: treeAt (index of the tree, or false), born (indexes of the children that do not exist yet, by their ids),
  bornCount, rootId, rootSize (of the tree before, or false when its root is gone), treeFits
]]
local treeAt = ARGV[at + 5] == "tree" and #ARGV - ARGV[#ARGV]
local born, bornCount, rootId, rootSize, treeFits = {}, 0, runId, tonumber(treeSize or 1), true
if treeAt then
  if parent then
    rootId = string.match(parent, "^[^ ]+ [^ ]+ [^ ]+ ([^ ]+)")
    local root = redis.call("HMGET", start .. "run:" .. tenant .. ":" .. rootId, "status", "treeSize")
    rootSize = root[1] and tonumber(root[2] or 1)
  end
  local child = treeAt + 2
  for _ = 1, ARGV[treeAt] do
    local name = tenant .. ":" .. ARGV[child]
    local known = redis.call("HMGET", start .. "run:" .. name, "status", "buried")
    if not known[1] and not known[2] then
      redis.call("LLEN", start .. "inbox:" .. name) -- Refuses a key of another type while nothing is written yet.
      born[ARGV[child]] = child
      bornCount = bornCount + 1
    end
    child = child + 7 + 2 * ARGV[child + 6]
  end
  treeFits = bornCount == 0 or not rootSize or rootSize + bornCount <= tonumber(runsPerRootMax)
end
