#!lua
--[[
  The queue of a lock. Nothing is written before one of the functions whose name begins with "write" is called; by then
  every key that they write has been read, so that none of them can fail. Endings are "given <token>": gave its place back,
  or its grant and another followed; "over <token>": its grant expired or was broken, and another followed;
  "broken <fence>": that grant was broken, and another followed.
  Reads: queueKey, ticketsKey, endsKey, endingsKey (nil for a lock without a queue), waitingKey (nil unless the tickets of
  this lock are counted), listed, now, nowMs
  Sets: queued (tickets, also silent ones), silent (tokens that nobody asked for in time), isSilent (the same, by token),
  firstTicket (the first live token that its argument accepts), isEnded (takes an ending), planEnding, writeEnding
  (remembers an ending), writeDrop (drops the ticket of a token and all silent ones)
]]
-- No call is under way for longer than a minute: after that no repeat and no late duplicate of it can come.
local endingMs, endingsMax = 60000, 1000
local queued, silent, isSilent, forgotten = 0, {}, {}, {}
if queueKey then queued = redis.call("ZCARD", queueKey) end
if queued > 0 then
  silent = redis.call("ZRANGE", endsKey, "-inf", "(" .. now, "BYSCORE")
  for _, each in ipairs(silent) do isSilent[each] = true end
end

local function firstTicket(accepts)
  for first = 0, queued - 1, 16 do
    for _, each in ipairs(redis.call("ZRANGE", queueKey, first, first + 15)) do
      if not isSilent[each] and accepts(each) then return each end
    end
  end
end

local function isEnded(ending)
  local untilMs = redis.call("ZSCORE", endingsKey, ending)
  return untilMs and nowMs <= tonumber(untilMs)
end

local function planEnding()
  forgotten = redis.call("ZRANGE", endingsKey, "-inf", "(" .. now, "BYSCORE", "LIMIT", "0", "100")
  if #forgotten == 0 and redis.call("ZCARD", endingsKey) >= endingsMax then
    forgotten = redis.call("ZRANGE", endingsKey, 0, 0)
  end
end

local function writeEnding(ending)
  if #forgotten > 0 then redis.call("ZREM", endingsKey, unpack(forgotten)) end
  redis.call("ZADD", endingsKey, string.format("%.0f", nowMs + endingMs), ending)
  redis.call("PEXPIRE", endingsKey, string.format("%.0f", endingMs + 1000))
end

local function writeDrop(token)
  if waitingKey then redis.call("ZREM", waitingKey, token .. " " .. listed) end
  silent[#silent + 1] = token
  for first = 1, #silent, 900 do
    local last = math.min(#silent, first + 899)
    redis.call("ZREM", queueKey, unpack(silent, first, last))
    redis.call("ZREM", endsKey, unpack(silent, first, last))
    redis.call("HDEL", ticketsKey, unpack(silent, first, last))
  end
end
