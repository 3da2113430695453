#!lua
--[[
  Whether a claim has to be judged by what it uses: most are not, and cost nothing more.
  Sets: isMetered (given the tenant's budgets and the limits of its topics as text, the job's topic, and its spec, of which the
  first ten characters are enough)
]]
local function isMetered(budgetsText, limitsText, topic, spec)
  return budgetsText ~= "" or string.sub(spec, 1, 10) == '{"meter":"'
    or limitsText ~= "" and string.find(limitsText, " u:" .. topic .. "=", 1, true)
end
