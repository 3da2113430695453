#!lua
--[[
  Decides which retries still wait after a commit, and which letters the end of the run gives back because their retries
  were never applied; writes nothing. What it plans is written before the letters of the commit's own change: one that is
  written anew is the new one.
  Reads: retries (see waiting-retries), consumed, at (index of the change, see plan-change), start, tenant, runKey,
  fields, writes (it adds to these two lists)
]]
--@include waiting-retries
local stillWaiting, discarded = "", {}
for _, retry in ipairs(waitingRetries) do
  if retry.place > consumed then
    stillWaiting = stillWaiting .. retryText(retry.place - consumed, retry.letter)
    discarded[#discarded + 1] = "meta:" .. retry.letter
  end
end
if ARGV[at + 1] == "ends" and #discarded > 0 then
  local lettersKey = start .. "documents:" .. tenant .. ":deadLetter"
  for index, meta in ipairs(redis.call("HMGET", lettersKey, unpack(discarded))) do
    local rest = string.match(meta or "", "^2( .*)$")
    if rest then writes[#writes + 1] = { "HSET", lettersKey, discarded[index], "1" .. rest } end
  end
  stillWaiting = ""
end
if stillWaiting == "" then
  writes[#writes + 1] = { "HDEL", runKey, "retries" }
else
  fields[#fields + 1] = "retries"
  fields[#fields + 1] = stillWaiting
end
