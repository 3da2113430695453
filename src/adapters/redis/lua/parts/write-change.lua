#!lua
--[[
  Writes what `plan-change` decided. Every key has been read by then, so that none of this can fail.
  Reads: what `plan-change` reads and sets
]]
for _, write in ipairs(writes) do redis.call(unpack(write)) end
local filled = #fields
fields[filled + 1], fields[filled + 2], fields[filled + 3], fields[filled + 4] = "status", status, "version", nextVersion
fields[filled + 5], fields[filled + 6], fields[filled + 7] = "updatedAt", now, "row:" .. nextVersion
fields[filled + 8] = ARGV[at + 2] .. " " .. now .. " " .. ARGV[at + 3]
filled = filled + 8
if ends then
  if gated and moves then select(3, useGates()).leave(known, gated)
  else redis.call("ZREM", activeKey, runId) end
  fields[filled + 1], fields[filled + 2] = "endedAt", now
  filled = filled + 2
  if gated then
    fields[filled + 1], fields[filled + 2] = "place", "0"
    filled = filled + 2
  end
  dueGone[#dueGone + 1] = "attention " .. tenant .. " " .. runId
  dueAdded[#dueAdded + 1] = retentionAt
  dueAdded[#dueAdded + 1] = "retention " .. tenant .. " " .. runId
end
for index = at + 6, at + 5 + 2 * ARGV[at + 4] do
  filled = filled + 1
  fields[filled] = ARGV[index]
end
for first = 1, filled, 900 do
  redis.call("HSET", runKey, unpack(fields, first, math.min(filled, first + 899)))
end
local dropped = version + 1 - timelineRowsMax
if dropped > 0 then redis.call("HDEL", runKey, "row:" .. string.format("%.0f", dropped)) end
for first = 1, #dueGone, 900 do
  redis.call("ZREM", dueKey, unpack(dueGone, first, math.min(#dueGone, first + 899)))
end
for first = 1, #dueAdded, 900 do
  redis.call("ZADD", dueKey, unpack(dueAdded, first, math.min(#dueAdded, first + 899)))
end
if fence then redis.call("SET", start .. "fence", fence) end
if bound then
  local added
  if ends and keepMs ~= "" then
    redis.call("SET", boundKey, bound, "PX", keepMs)
    added = redis.call("ZADD", known.keyedKey, string.format("%.0f", nowMs + keepMs), reservation)
  else
    redis.call("SET", boundKey, bound)
    added = redis.call("ZADD", known.keyedKey, "9007199254740991", reservation)
  end
  if known.keysKept then known.keysKept = known.keysKept + added end
end
if proofAt then writeProof(known, proofAt) end
if releasesPlaces then select(3, useGates()).release(known, gated) end
-- What it held is handed on at once.
if moves then select(3, useGates()).handOn(known, moves) end
