#!lua flags=no-writes
--[[
  Counts what a tenant has of everything that has a quota.
  KEYS[1] ids of API keys: sorted set; so are those of workflows and definitions
  KEYS[2] ids of workflows
  KEYS[3] ids of definitions
  KEYS[4] active: sorted set of the runs that hold the tenant's slots, by the time of their admission
  KEYS[5] keyed: sorted set of the tenant's idempotency keys, by when they end
  KEYS[6] held: sorted set of the tenant's public locks by when they end
  KEYS[7] waiting: sorted set of "<token> <lock>" of the tickets for the tenant's public locks, by when they end
  KEYS[8] queued: sorted set of the runs that wait at gates, by when they were started
  KEYS[9] released: sorted set of those that have given their places back and wait for none
  Returns {"counted", now, API keys, workflows, definitions, active runs, idempotency keys, locks, tickets} or
  {"too_late", now}
]]
--@include clock

return {
  "counted", now,
  redis.call("ZCARD", KEYS[1]), redis.call("ZCARD", KEYS[2]), redis.call("ZCARD", KEYS[3]),
  redis.call("ZCARD", KEYS[4]) + redis.call("ZCARD", KEYS[8]) + redis.call("ZCARD", KEYS[9]), redis.call("ZCARD", KEYS[5]),
  redis.call("ZCOUNT", KEYS[6], now, "+inf"), redis.call("ZCOUNT", KEYS[7], now, "+inf"),
}
