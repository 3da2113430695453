#!lua
--[[
  Adds the event rows of the approvals that a change asks for and of the children that it starts or cancels, after its own row.
  Reads: treeRows, eventsKey, eventsMax, now
]]
for _, row in ipairs(treeRows) do
  redis.call("XADD", eventsKey, "MAXLEN", "~", eventsMax, "0-*",
    "at", now, "type", row[1], "subject", row[2], "actor", row[3], "detail", row[4])
end
