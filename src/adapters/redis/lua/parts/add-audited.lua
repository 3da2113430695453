#!lua
--[[
  Adds a row to the event feed and to the audit trail. Each stream counts by itself. The feed's row is the only write here
  that Redis can still refuse, and before it nothing has happened.
  Reads: eventsKey, eventsMax, trailKey, trailMax, now
  Sets: addAudited (a function of type, subject, actor and detail)
]]
local function addAudited(type, subject, actor, detail)
  redis.call("XRANGE", trailKey, "-", "+", "COUNT", 1) -- Refuses a key of another type while nothing is written yet.
  redis.call("XADD", eventsKey, "MAXLEN", "~", eventsMax, "0-*",
    "at", now, "type", type, "subject", subject, "actor", actor, "detail", detail)
  redis.call("XADD", trailKey, "MAXLEN", "~", trailMax, "0-*",
    "at", now, "type", type, "subject", subject, "actor", actor, "detail", detail)
end
