#!lua
--[[
  Finds to whom a lock is handed on: the first in its queue who is there, may still have locks, and whose tenant was not
  stopped. Writes nothing; `writeDrop` and `write-grant` do.
  Reads: what `lock-queue` reads and sets, tenantKey, stoppable ("stoppable" if the kill switch stops this lock)
  Sets: newToken (nil if there is nobody), newInstance, newTtlMs, newOwner
]]
local newToken, newInstance, newTtlMs, newOwner
if queued > #silent then
  local settings = redis.call("HMGET", tenantKey, "stopped", "revoked")
  local revoked = settings[2] or ""
  if stoppable == "" or settings[1] ~= "true" then
    newToken = firstTicket(function(each)
      local ticket = redis.call("HGET", ticketsKey, each)
      local ttlMs, instance, owner, credential = string.match(ticket or "", "^([^ ]+) ([^ ]+) ([^ ]+) ([^ ]+)$")
      newTtlMs, newInstance, newOwner = ttlMs, instance, owner
      return ttlMs and not string.find(revoked, " " .. credential .. " ", 1, true)
    end)
  end
end
