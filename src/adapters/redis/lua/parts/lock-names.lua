#!lua
--[[
  From the name of a lock in the list of locks to its keys.
  Reads: start (what every key of the partition begins with), encodeName
  Sets: keysOfLock (given a tenant and a name in the list: the key of the lock, the key of the ends of its tickets)
]]
local lockStarts = {
  admission = "wf:run:admission:",
  approval = "approval:",
  job = "scheduler:job:",
  public = "lock:",
  run = "wf:run:lock:",
}
local function keysOfLock(tenant, listed)
  local namespace, name = string.match(listed, "^([a-z]+)/(.*)$")
  local rest = tenant .. ":" .. encodeName(name)
  local lockRest = namespace == "admission" and name == "" and tenant or rest
  return start .. lockStarts[namespace] .. lockRest, start .. "ticket-ends:" .. namespace .. ":" .. rest
end
