#!lua
--[[
  Whether a start passes its rates, or may wait for them, and whether its budgets still have something; writes nothing, unless
  a level that refuses it lies ahead of the clock: that is kept anew. One that is to begin with this very operation, or under
  a lock, cannot wait.
  The rates are "<rate> <limit> <perMs> <burst> <at limit>" one after another, or ""; the budgets of its workflow "<budget> <at limit>" one
  after another, or ""; the tenant's are among its settings.
  Reads: ratesText, budgetsText, plan (see judge-gates), known (the tenant, see tenants), settings (of it), mayWait, nowMs, now, useLimits
  Sets: startRates (their terms in their order, or nil without any), rated (the terms of the one for which it waits longest,
  with startsAtMs, or nil), refused (the answer, or nil)
]]
local startRates, rated, refused = nil, nil, nil
if ratesText ~= "" then
  local rates = useLimits()
  local deadlineMs = mayWait and tonumber(string.match(plan, "^[^ ]+ ([^ ]+)"))
  startRates = {}
  for id, limit, perMs, burst, atLimit in string.gmatch(ratesText, "([^ ]+) ([^ ]+) ([^ ]+) ([^ ]+) ([^ ]+)") do
    local terms = { id = id, limit = tonumber(limit), perMs = tonumber(perMs), burst = tonumber(burst) }
    startRates[#startRates + 1] = terms
    local rate = rates.of(known, id)
    local waitMs = rates.waitMs(terms, rates.levelOf(rate, terms), 1)
    local tooLongMs = atLimit == "queue" and deadlineMs and waitMs - deadlineMs + 1 or waitMs
    if waitMs > 0 and tooLongMs > 0 and not refused then
      refused = { "start_rate_exceeded", now, "rate", id, "retryAfterMs", tooLongMs }
      local commands = {}
      rates.renew(rate, terms)
      rates.write(commands)
      for _, command in ipairs(commands) do redis.call(unpack(command)) end
    elseif waitMs > 0 and nowMs + waitMs > (rated and rated.startsAtMs or 0) then
      terms.startsAtMs = nowMs + waitMs
      rated = terms
    end
  end
end
if not refused and (budgetsText ~= "" or settings.budgets ~= "") then
  local _, budgets = useLimits()
  local ofWorkflow = {}
  for id, atLimit in string.gmatch(budgetsText, "([^ ]+) ([^ ]+)") do ofWorkflow[#ofWorkflow + 1] = { id = id, atLimit = atLimit } end
  for _, payer in ipairs(budgets.payersOf(known, ofWorkflow)) do
    if not refused and payer.atLimit == "reject" and payer.amount and not budgets.fits(payer.ledger, payer.amount, 0) then
      refused = { "budget_exhausted", now, "budget", payer.id, "resetsAtMs", payer.endMs }
    end
  end
end
