#!lua
--[[
  Decides what keeping a dead letter writes; writes nothing.
  Reads: start, tenant, now, nowMs, and the lists that it adds to: writes, dueAdded
  Sets: saveLetter(id, reason, body, retentionMs)
]]
local lettersKey = start .. "documents:" .. tenant .. ":deadLetter"
local letterIdsKey = start .. "document-ids:" .. tenant .. ":deadLetter"
local revisions = {}
local function saveLetter(id, reason, body, retentionMs)
  local last = revisions[id]
  if not last then
    redis.call("ZCARD", letterIdsKey)
    last = string.match(redis.call("HGET", lettersKey, "meta:" .. id) or "", "^[^ ]+") or 0
  end
  revisions[id] = last + 1
  local meta = string.format("%.0f", last + 1) .. " " .. now .. " " .. reason
  writes[#writes + 1] = { "HSET", lettersKey, "meta:" .. id, meta, "body:" .. id, body }
  writes[#writes + 1] = { "ZADD", letterIdsKey, 0, id }
  dueAdded[#dueAdded + 1] = string.format("%.0f", nowMs + retentionMs)
  dueAdded[#dueAdded + 1] = "letter " .. tenant .. " " .. id
end
