#!lua flags=no-writes,allow-cross-slot-keys
--[[
  Finds the partitions in which something is due. They are in different slots of a Cluster: one server looks at all those
  that it holds. One that it does not hold, or cannot read, counts as due: the sweep of it finds the right server.
  KEYS[1] due of the first one: sorted set of "<kind> <tenant> <subject>" by the time at which the sweep handles it
  ARGV from 2 on: the partitions, such as p07
  Returns {"found", now, the places of those found, counted from 1} or {"too_late", now}
]]
--@include clock

local prefix = string.match(KEYS[1], "^(.*){[^{}]*}:due$")
local found = {}
for index = 2, #ARGV do
  local first =
    redis.pcall("ZRANGE", prefix .. "{" .. ARGV[index] .. "}:due", "-inf", now, "BYSCORE", "LIMIT", "0", "1")
  if first.err or #first > 0 then found[#found + 1] = index - 1 end
end
return { "found", now, found }
