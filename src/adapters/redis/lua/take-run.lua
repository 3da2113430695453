#!lua flags=allow-oom
--[[
  Takes the run lock to apply what waits, if anything does.
  KEYS[1] run: hash of the header's fields, and fields "record:<key>", "job:<id>", "row:<version>"
  KEYS[2] inbox: list of the entries that wait, "<kind> <json>", a line feed and the id
  KEYS[3] run lock: "<token> <instance> <fence>[ <owner>]", expires with the grant
  KEYS[4] grant: "<token> <instance> <fence>[ <owner>] held|released|broken", the memory of the last grant
  KEYS[5] fence: the partition's last fence, never expires
  KEYS[6] due: sorted set of "<kind> <tenant> <subject>" by time
  KEYS[7] start of all keys of the partition
  ARGV[2] tenant  ARGV[3] runId  ARGV[4] token  ARGV[5] instance  ARGV[6] ttlMs
  ARGV[7] grantMemoryMs  ARGV[8] attentionMs  ARGV[9] "<drainsMax> <setAsideAfterMs>"  ARGV[10] entriesMax  ARGV[11] deadLetterRetentionMs
  ARGV from 12 on: the names of the fields of the records wanted
  Returns {"owned", now, fence, values, entries}, {"handed_over", now}, {"empty", now},
  {"not_found", now} or {"too_late", now}
]]
--@include clock

local runKey, inboxKey, lockKey, grantKey, fenceKey = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local dueKey, start = KEYS[6], KEYS[7]
local tenant, runId, token, instance, ttlMs, grantMemoryMs = ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7]
local attentionMs, drainsMax, entriesMax, letterMs = ARGV[8], ARGV[9], ARGV[10], ARGV[11]
local wantedFirst, wantedLast = 12, #ARGV
local run = redis.call("HMGET", runKey, "status", "drains", "drainsSince", "place")
if not run[1] then return { "not_found", now } end
local lock = redis.call("GET", lockKey)
local waiting = redis.call("LLEN", inboxKey)
if lock then
  local holder, heldFence = string.match(lock, "^([^ ]+) [^ ]+ ([^ ]+)")
  if holder == token then
    --@include owned-run
    return { "owned", now, heldFence, values, entries }
  end
  if waiting == 0 then return { "empty", now } end
  return { "handed_over", now }
end
if waiting == 0 then return { "empty", now } end
-- It has given its places back, and waits for them.
if string.find(run[4] or "", "^[0-9 ]+ away$") then return { "handed_over", now } end

local drains, drainsSince, entry, fields, writes, dueAdded = run[2], run[3], nil, {}, {}, {}
redis.call("ZCARD", dueKey) -- Refuses a key of another type while nothing is written yet.
--@include plan-take
--@include write-take
--@include owned-run
return { "owned", now, takenFence, values, entries }
