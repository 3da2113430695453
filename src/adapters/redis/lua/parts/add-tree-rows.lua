#!lua
--[[
  Adds the event rows of the children that a change starts or cancels, after the change's own row.
  Reads: treeRows, eventsKey, eventsMax, now
]]
for _, row in ipairs(treeRows) do
  redis.call("XADD", eventsKey, "MAXLEN", "~", eventsMax, "0-*",
    "at", now, "type", row[1], "subject", row[2], "actor", row[3], "detail", row[4])
end
