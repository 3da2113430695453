#!lua
--[[
  The retries that wait in a run's inbox, as the run's field "retries" names them: "<place in the inbox> <length of the
  letter's id> <letter's id>" of each, without anything between them.
  Reads: retries (the field's text)
  Sets: waitingRetries (place and letter of each, oldest first), retryText(place, letter)
]]
local waitingRetries, retryAt = {}, 1
while retryAt <= #retries do
  local place, length, first = string.match(retries, "^([0-9]+) ([0-9]+) ()", retryAt)
  retryAt = first + length
  waitingRetries[#waitingRetries + 1] = { place = tonumber(place), letter = string.sub(retries, first, retryAt - 1) }
end
local function retryText(place, letter)
  return string.format("%.0f %.0f ", place, #letter) .. letter
end
