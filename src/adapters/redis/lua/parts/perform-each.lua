#!lua
--[[
  Performs the items of a call one after another. Each is an operation of its own: it sees what those before it did, its
  answer is its own, and one that fails has written nothing and keeps nobody else from anything.
  ARGV[1] number of items; after the settings for each item the number of its arguments, and these
  Reads: settingsEnd, nowMs, now, perform (given the arguments of an item, of which the first is its notAfterMs: its answer)
  Sets: answers
]]
local answers, itemAt = {}, settingsEnd + 1
for item = 1, ARGV[1] do
  local first, last = itemAt + 1, itemAt + ARGV[itemAt]
  local arguments = {}
  if last - first < 1000 then
    arguments = { unpack(ARGV, first, last) }
  else
    for index = first, last do arguments[#arguments + 1] = ARGV[index] end
  end
  local isDone, answer = true, { "too_late", now }
  if nowMs <= tonumber(arguments[1]) then isDone, answer = pcall(perform, arguments) end
  answers[item] = isDone and answer or { "failed", now, answer }
  itemAt = last + 1
end
