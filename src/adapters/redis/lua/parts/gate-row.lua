#!lua
--[[
  What holds of a gate now, as an answer has it.
  Reads: gates, queues
  Sets: rowOf (given a tenant and a gate's id: it, its limit or "", how many runs hold places in it, and how many wait)
]]
local function rowOf(known, id)
  local gate = gates.of(known, id)
  return { id, gates.limitOf(known, gate) or "", gates.activeIn(known, gate), queues.waitingAt(gate, 0) }
end
