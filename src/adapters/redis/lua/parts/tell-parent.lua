#!lua
--[[
  Decides what the end of a child run writes: an entry of its parent's inbox, unless nobody would apply it any more.
  Reads: parent (see judge-tree), start, tenant, runId, status, terminal, attentionMs, dueKey, nowMs,
  writes (a list that it adds to)
]]
local parentId, step, attempt = string.match(parent, "^([^ ]+) ([^ ]+) ([^ ]+)")
local parentStatus = redis.call("HGET", start .. "run:" .. tenant .. ":" .. parentId, "status")
if parentStatus and not terminal[parentStatus] then
  local parentInbox, id = start .. "inbox:" .. tenant .. ":" .. parentId, "child:" .. runId
  redis.call("LLEN", parentInbox) -- Refuses a key of another type while nothing is written yet.
  writes[#writes + 1] = { "RPUSH", parentInbox,
    'child_ended {"kind":"child_ended","entryId":"' .. id .. '","runId":"' .. runId .. '","step":'
      .. string.gsub(step, "\1", " ") .. ',"attempt":' .. attempt .. ',"status":"' .. status .. '"}\n' .. id }
  writes[#writes + 1] = { "ZADD", dueKey, "NX", string.format("%.0f", nowMs + attentionMs),
    "attention " .. tenant .. " " .. parentId }
end
