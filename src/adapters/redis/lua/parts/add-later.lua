#!lua
--[[
  New members of sorted sets that nothing in the call reads any more: those of all items are written together, at its end. An
  item adds to them when it has begun to write, and by then it has read their keys, so that this cannot fail.
  Sets: addLater (given a key, a score and a member), writeLater
]]
local membersLater = {}

local function addLater(key, score, member)
  local members = membersLater[key]
  if not members then
    members = {}
    membersLater[key] = members
  end
  local count = #members
  members[count + 1], members[count + 2] = score, member
end

local function writeLater()
  for key, members in pairs(membersLater) do
    for first = 1, #members, 900 do
      redis.call("ZADD", key, unpack(members, first, math.min(#members, first + 899)))
    end
  end
end
