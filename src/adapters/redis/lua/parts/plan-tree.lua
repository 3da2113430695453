#!lua
--[[
  Decides what starting and cancelling the children of a change writes; writes nothing. `write-change` writes it.
  Reads: what `judge-tree` reads and sets, nextVersion, attentionMs, terminal, dueKey, nowMs, now,
  fields, writes, dueAdded (it adds to these three lists)
  Sets: treeRows (event rows: type, subject, actor, detail)
]]
local treeRows = {}
if treeAt then
  local soon = string.format("%.0f", nowMs + attentionMs)
  local depth = parent and string.match(parent, "([0-9]+)$") + 1 or 1
  if bornCount > 0 then redis.call("ZCARD", start .. "runs:" .. tenant) end
  local index = treeAt + 3
  for _ = 1, ARGV[treeAt + 1] do
    local id, workflow, definition, step, attempt, started, records = unpack(ARGV, index, index + 6)
    if born[id] == index then
      local childKey = start .. "run:" .. tenant .. ":" .. id
      local place = runId .. " " .. step .. " " .. attempt .. " " .. rootId .. " " .. string.format("%.0f", depth)
      writes[#writes + 1] = {
        "HSET", childKey, "workflow", workflow, "definition", definition, "actor", runId, "admittedAt", now,
        "status", "pending", "version", "1", "updatedAt", now, "parent", place,
        "row:1", '"' .. id .. '" ' .. now .. ' [{"type":"run_admitted"}]',
      }
      local last = index + 6 + 2 * records
      for first = index + 7, last, 900 do
        writes[#writes + 1] = { "HSET", childKey, unpack(ARGV, first, math.min(last, first + 899)) }
      end
      writes[#writes + 1] = { "ZADD", start .. "runs:" .. tenant, 0, id }
      writes[#writes + 1] = { "RPUSH", start .. "inbox:" .. tenant .. ":" .. id, started }
      dueAdded[#dueAdded + 1] = soon
      dueAdded[#dueAdded + 1] = "attention " .. tenant .. " " .. id
      treeRows[#treeRows + 1] = { "run_admitted", id, runId, workflow }
    end
    index = index + 7 + 2 * records
  end
  if bornCount > 0 and rootSize then
    local size = string.format("%.0f", rootSize + bornCount)
    if parent then
      writes[#writes + 1] = { "HSET", start .. "run:" .. tenant .. ":" .. rootId, "treeSize", size }
    else
      fields[#fields + 1] = "treeSize"
      fields[#fields + 1] = size
    end
  end

  local entryId, reason, seen = "cancel:" .. runId .. ":" .. nextVersion, "parent run ended", {}
  local entry = 'cancel {"kind":"cancel","entryId":"' .. entryId .. '","actor":"' .. runId .. '","reason":"' .. reason
    .. '"}\n' .. entryId
  for cancelled = index, index + ARGV[treeAt + 2] - 1 do
    local id = ARGV[cancelled]
    local name = tenant .. ":" .. id
    local run = redis.call("HMGET", start .. "run:" .. name, "status", "cancel")
    local open = born[id] or run[1] and not terminal[run[1]] and not run[2]
    if open and not seen[id] then
      seen[id] = true
      redis.call("LLEN", start .. "inbox:" .. name)
      writes[#writes + 1] = { "HSET", start .. "run:" .. name, "cancel", entryId }
      writes[#writes + 1] = { "RPUSH", start .. "inbox:" .. name, entry }
      writes[#writes + 1] = { "ZADD", dueKey, "NX", soon, "attention " .. tenant .. " " .. id }
      treeRows[#treeRows + 1] = { "cancel_requested", id, runId, reason }
    end
  end
end
