#!lua
--[[
  Decides what keeping a dead letter writes; writes nothing.
  Reads: start, tenant, now, nowMs, writes, dueAdded (it adds to these two lists)
  Sets: saveLetter(id, reason, body, retentionMs)
]]
local lettersKey = start .. "documents:" .. tenant .. ":deadLetter"
local letterIdsKey = start .. "document-ids:" .. tenant .. ":deadLetter"
redis.call("HLEN", lettersKey) -- Refuses a key of another type while nothing is written yet.
redis.call("ZCARD", letterIdsKey)
local function saveLetter(id, reason, body, retentionMs)
  -- One that is written again under its id is a new letter, which nobody has retried: that would be revision 2.
  writes[#writes + 1] = { "HSET", lettersKey, "meta:" .. id, "1 " .. now .. " " .. reason, "body:" .. id, body }
  writes[#writes + 1] = { "ZADD", letterIdsKey, 0, id }
  dueAdded[#dueAdded + 1] = string.format("%.0f", nowMs + retentionMs)
  dueAdded[#dueAdded + 1] = "letter " .. tenant .. " " .. id
end
