#!lua
--[[
  Decides what taking a free run writes: the next fence, and, when too many owners in a row committed nothing for some
  time, the head entry set aside. Writes nothing; `write-take` writes it.
  Reads: start, tenant, runId, inboxKey, grantKey, fenceKey, drains and drainsSince (text or false), waiting (entries before
  this call), entry (that this call appends, or nil), drainsMax ("<owners> <ms>", both must have passed), letterMs, time,
  nowMs, now, writes, dueAdded (it adds to these two lists)
  Sets: takenFence, setAside (the head entry in its new form, or false), drainsNow, sinceNow
]]
redis.call("GET", grantKey) -- Refuses a key of another type while nothing is written yet.
local lastFence = redis.call("GET", fenceKey) or 0
local takenFence = string.format("%.0f", math.max(lastFence + 1, time[1] * 1000000 + time[2]))
local drainsNow, setAside = tonumber(drains or 0) + 1, false
local sinceNow = drainsNow > 1 and drainsSince or now
local ownersMax, inVainMs = string.match(drainsMax, "^([0-9]+) ([0-9]+)$")
if drainsNow > tonumber(ownersMax) and nowMs - sinceNow >= tonumber(inVainMs) then
  local head = waiting > 0 and redis.call("LINDEX", inboxKey, 0) or entry
  local kind, was, id = string.match(head, "^([^ ]+) ([^\n]*)\n(.*)$")
  if kind ~= "poisoned" then
    --@include save-letter
    local letter = '{"reason":"poisoned_entry","run_id":"' .. runId .. '","entry":' .. was .. "}"
    saveLetter(runId .. ":" .. id, "poisoned_entry", letter, letterMs)
    setAside = "poisoned" .. string.sub(head, #kind + 1)
    drainsNow, sinceNow = 1, now
  end
end
