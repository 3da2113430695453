#!lua
--[[
  What a start is told of its rates: of the one with the least left.
  Reads: useLimits
  Sets: rateLeft (given a tenant and the rates of the start, as `judge-rates` describes them: limit, perMs, what passes at once
  and until when nothing of it is used any more, or {} without any)
]]
local function rateLeft(known, ratesText)
  local left = {}
  if ratesText == "" then return left end
  local rates = useLimits()
  for id, limit, perMs, burst in string.gmatch(ratesText, "([^ ]+) ([^ ]+) ([^ ]+) ([^ ]+) [^ ]+") do
    local terms = { limit = tonumber(limit), perMs = tonumber(perMs), burst = tonumber(burst) }
    local level = rates.levelOf(rates.of(known, id), terms)
    local remaining = rates.remaining(terms, level)
    if not left[3] or remaining < left[3] then left = { terms.limit, terms.perMs, remaining, math.ceil(level / terms.limit) } end
  end
  return left
end
