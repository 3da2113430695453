#!lua
--[[
  The functions on rates, budgets and what claims use, made when the first of them is needed: most calls need none. What they
  have changed is written together.
  Reads: start, dueKey, now, nowMs, eventsMax, settingsOf, checkSet
  Sets: useLimits (it gives the tables that `rates`, `budgets` and `meters` set), beginLimits (for an operation of its own: what
  another one has changed and not written is forgotten), planLimits (of a tenant and a list of commands, which gets those that
  store what was changed), addCrossings (of a tenant: the event rows of its budgets)
]]
local ratesInUse, budgetsInUse, metersInUse

local function useLimits()
  if not ratesInUse then
    --@include rates
    --@include budgets
    --@include meters
    ratesInUse, budgetsInUse, metersInUse = rates, budgets, meters
  end
  return ratesInUse, budgetsInUse, metersInUse
end

local function beginLimits()
  if not ratesInUse then return end
  ratesInUse.begin()
  budgetsInUse.begin()
end

local function planLimits(known, commands)
  if not ratesInUse then return end
  ratesInUse.write(commands)
  budgetsInUse.write(known, commands)
end

local function addCrossings(known)
  for _, row in ipairs(budgetsInUse and budgetsInUse.crossed or {}) do
    redis.call("XADD", start .. "events:" .. known.id, "MAXLEN", "~", eventsMax, "0-*",
      "at", now, "type", "budget_crossed", "subject", row[1], "actor", "engine", "detail", row[2])
  end
end
