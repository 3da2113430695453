#!lua flags=no-writes
--[[
  Lists locks that are held. It looks at 200 names of the list at most, and for the locks of runs at the 200 things of the
  partition that are due next: a run that is drained has entries waiting, so that the sweep will visit it soon.
  KEYS[1] what every key of the partition begins with: the locks are only known here
  KEYS[2] locks: sorted set of the locks that are held, all with score 0; some may have expired
  KEYS[3] due: sorted set of "<kind> <tenant> <subject>" by time
  ARGV[2] tenant  ARGV[3] limit  ARGV[4] "admission" to begin with the tenant's admission lock, or ""
  ARGV[5] "-", or "(" and the name to begin after; "" when only the locks of runs are left
  ARGV[6] how many of the list are looked at  ARGV[7] how many of what is due are
  Returns {"listed", now, where to go on or "", locks, locks of runs in no order} or {"too_late", now}; of each lock
  {name in the list, instance, fence, owner or "", expiresInMs, waiting}
]]
--@include clock

local start, tenant, limit, locks, runLocks = KEYS[1], ARGV[2], tonumber(ARGV[3]), {}, {}
--@include encode-name
--@include lock-names
local function look(listed, list)
  local lockKey, endsKey = keysOfLock(tenant, listed)
  local lock = redis.call("GET", lockKey)
  if not lock then return end
  local instance, fence, owner = string.match(lock, "^[^ ]+ ([^ ]+) ([^ ]+) ?(.*)$")
  local waiting = list == locks and redis.call("ZCOUNT", endsKey, now, "+inf") or 0
  list[#list + 1] = { listed, instance, fence, owner, redis.call("PTTL", lockKey), waiting }
end

if ARGV[4] ~= "" then look("admission/", locks) end
if ARGV[5] ~= "" then
  local names = redis.call("ZRANGE", KEYS[2], ARGV[5], "+", "BYLEX", "LIMIT", "0", ARGV[6])
  for _, listed in ipairs(names) do
    if #locks == limit then break end
    look(listed, locks)
  end
  if #locks < limit and #names == tonumber(ARGV[6]) then return { "listed", now, names[#names], locks, {} } end
end
if #locks < limit then
  local ours = "attention " .. tenant .. " "
  for _, member in ipairs(redis.call("ZRANGE", KEYS[3], 0, ARGV[7] - 1)) do
    if string.sub(member, 1, #ours) == ours then look("run/" .. string.sub(member, #ours + 1), runLocks) end
  end
end
return { "listed", now, "", locks, runLocks }
