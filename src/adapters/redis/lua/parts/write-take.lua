#!lua
--[[
  Writes what `plan-take` decided: the run is ours until the lock expires, and the sweep looks after it.
  Reads: what `plan-take` reads and sets, lockKey, dueKey, runKey, token, instance, ttlMs, grantMemoryMs, attentionMs, fields
]]
for _, write in ipairs(writes) do redis.call(unpack(write)) end
fields[#fields + 1] = "drains"
fields[#fields + 1] = string.format("%.0f", drainsNow)
fields[#fields + 1] = "drainsSince"
fields[#fields + 1] = sinceNow
redis.call("HSET", runKey, unpack(fields))
if setAside then redis.call("LSET", inboxKey, 0, setAside) end
dueAdded[#dueAdded + 1] = string.format("%.0f", nowMs + attentionMs)
dueAdded[#dueAdded + 1] = "attention " .. tenant .. " " .. runId
redis.call("ZADD", dueKey, unpack(dueAdded))
local grantValue = token .. " " .. instance .. " " .. takenFence
redis.call("SET", lockKey, grantValue, "PX", ttlMs)
redis.call("SET", grantKey, grantValue .. " held", "PX", string.format("%.0f", ttlMs + grantMemoryMs))
redis.call("SET", fenceKey, takenFence)
