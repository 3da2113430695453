#!lua
--[[
  Writes what `plan-change` decided. Every key has been read by then, so that none of this can fail.
  Reads: what `plan-change` reads and sets
]]
for _, write in ipairs(writes) do redis.call(unpack(write)) end
fields[#fields + 1] = "status"
fields[#fields + 1] = status
fields[#fields + 1] = "version"
fields[#fields + 1] = nextVersion
fields[#fields + 1] = "updatedAt"
fields[#fields + 1] = now
fields[#fields + 1] = "row:" .. nextVersion
fields[#fields + 1] = ARGV[at + 2] .. " " .. now .. " " .. ARGV[at + 3]
if ends then
  redis.call("ZREM", activeKey, runId)
  fields[#fields + 1] = "endedAt"
  fields[#fields + 1] = now
  dueGone[#dueGone + 1] = "attention " .. tenant .. " " .. runId
  dueAdded[#dueAdded + 1] = string.format("%.0f", nowMs + ARGV[at + 7])
  dueAdded[#dueAdded + 1] = "retention " .. tenant .. " " .. runId
end
for index = at + 10, at + 9 + 2 * ARGV[at + 4] do fields[#fields + 1] = ARGV[index] end
for first = 1, #fields, 900 do
  redis.call("HSET", runKey, unpack(fields, first, math.min(#fields, first + 899)))
end
local dropped = version + 1 - ARGV[at + 6]
if dropped > 0 then redis.call("HDEL", runKey, "row:" .. string.format("%.0f", dropped)) end
for first = 1, #dueGone, 900 do
  redis.call("ZREM", dueKey, unpack(dueGone, first, math.min(#dueGone, first + 899)))
end
for first = 1, #dueAdded, 900 do
  redis.call("ZADD", dueKey, unpack(dueAdded, first, math.min(#dueAdded, first + 899)))
end
if fence then redis.call("SET", start .. "fence", fence) end
if bound then
  local keyedKey, digest = start .. "keyed:" .. tenant, reservation
  if keepMs == "" then
    redis.call("SET", boundKey, bound)
    redis.call("ZADD", keyedKey, "9007199254740991", digest)
  else
    redis.call("SET", boundKey, bound, "PX", keepMs)
    redis.call("ZADD", keyedKey, string.format("%.0f", nowMs + keepMs), digest)
  end
end
if proofAt then redis.call("ZADD", dueKey, "LT", proofAt, "proof " .. tenant .. " ") end
