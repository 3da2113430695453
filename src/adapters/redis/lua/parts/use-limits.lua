#!lua
--[[
  The functions on rates, budgets and what claims use, made when the first of them is needed: most calls need none. They keep
  what they have read and changed: an operation of its own begins by setting limitsInUse to nil.
  Reads: start, dueKey, now, nowMs, eventsMax, settingsOf, checkSet
  Sets: useLimits (it gives the tables that `rates`, `budgets` and `meters` set), limitsInUse (nil, or a table of two
  functions: tell of a tenant, which adds the event rows of its budgets, and plan of a tenant and a list of commands, which
  gets those that store what was changed)
]]
local limitsInUse

local function useLimits()
  if limitsInUse then return limitsInUse.rates, limitsInUse.budgets, limitsInUse.meters end
  --@include rates
  --@include budgets
  --@include meters
  limitsInUse = { rates = rates, budgets = budgets, meters = meters }
  function limitsInUse.tell(known)
    for _, row in ipairs(budgets.crossed) do
      redis.call("XADD", start .. "events:" .. known.id, "MAXLEN", "~", eventsMax, "0-*",
        "at", now, "type", "budget_crossed", "subject", row[1], "actor", "engine", "detail", row[2])
    end
  end
  function limitsInUse.plan(known, commands)
    rates.write(commands)
    budgets.write(known, commands)
  end
  return rates, budgets, meters
end
