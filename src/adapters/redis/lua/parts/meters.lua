#!lua
--[[
  What claims use: whether one passes the rates of its topic and the budgets that pay for it, what it reserves there, and what
  its end settles. A job's spec begins with {"meter": where it has one. A charge is the field charge:<job> of its run:
  "<token>", and behind it " e:<unit>=<amount>" of its estimate, " h:<unit>=<amount>" of what heartbeats have told,
  " r:<rate>=<units>,<level>,<at>,<limit>,<perMs>,<burst>" of what it has taken, " l:<budget>@<start of the period>=<reserved>,<at limit>" of what it has
  reserved, and once it is settled without a result " s " and " s:<unit>=<amount>". Nothing is written here.
  Reads: nowMs, rates, budgets, settingsOf
  Sets: meters (a table of functions: judge of a tenant, a topic, a spec, a job and its createdAt, which gives the plan of a claim, or nil when it passes
  without one: a table of refusal, againInMs, budget where it is parked, overBudget; take of a plan that passes, and the token's word, gives the
  charge as text, or nil; read of a charge's text; textOf a charge; settle of a tenant, a charge, its end, which is "reported",
  "handed_back" or "gone", and usage; correct of a tenant, a charge that is settled and the usage; hear of a tenant, a charge and usage, gives the budget that is overspent, or nil;
  amountsOf of a text)
]]
