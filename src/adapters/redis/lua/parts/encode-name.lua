#!lua
--[[
  A name as keys hold it: what encodeURIComponent makes of ASCII.
  Sets: encodeName(text)
]]
local function encodeName(text)
  return (string.gsub(text, "[^A-Za-z0-9%-_.!~*'()]", function(letter)
    return string.format("%%%02X", string.byte(letter))
  end))
end
