// The Lua scripts with a clock that a test sets: only their text differs, so that nothing in the product can reach it.
import { readOperationSource, type ScriptOverrides } from "../../src/adapters/redis/scripts.ts";
import { allPartitions, partitionLabel } from "../../src/domain/tenant.ts";
import { type OperationName, operationNames } from "../../src/ports/store.ts";

/** The key of every partition that holds the time in milliseconds. */
export const clockKeys: readonly string[] = allPartitions.map(
  (partition) => `{${partitionLabel(partition)}}:set-clock`,
);

const timeLine = 'local time = redis.call("TIME")\n';

/**
 * In place of the line that asks Redis for the time. Expiry follows the set time, too: instead of giving a key a time to live,
 * its last millisecond is kept beside it, and what is over is removed before a script looks at anything, as Redis does it.
 */
const setTime = `local redis = (function(server)
  local tag = string.match(KEYS[1], "{p%d+}")
  local ends = tag .. ":set-clock-ends"
  local nowMs = server.call("GET", tag .. ":set-clock")
  for _, key in ipairs(server.call("ZRANGE", ends, "-inf", "(" .. nowMs, "BYSCORE")) do
    server.call("DEL", key)
    server.call("ZREM", ends, key)
  end
  local calls = {}
  function calls.TIME() return { string.sub(nowMs, 1, -4), string.sub(nowMs, -3) .. "000" } end
  function calls.SET(key, value, px, ms, ...)
    assert(not px or (px == "PX" and select("#", ...) == 0), "the set clock knows no other option of SET")
    local done = server.call("SET", key, value)
    if px then server.call("ZADD", ends, string.format("%.0f", nowMs + ms), key) else server.call("ZREM", ends, key) end
    return done
  end
  function calls.PEXPIRE(key, ms)
    if server.call("EXISTS", key) == 0 then return 0 end
    server.call("ZADD", ends, string.format("%.0f", nowMs + ms), key)
    return 1
  end
  function calls.PTTL(key)
    if server.call("EXISTS", key) == 0 then return -2 end
    local last = server.call("ZSCORE", ends, key)
    return last and last - nowMs or -1
  end
  function calls.DEL(...)
    server.call("ZREM", ends, ...)
    return server.call("DEL", ...)
  end
  calls.UNLINK = calls.DEL
  local function call(name, ...)
    if calls[name] then return calls[name](...) end
    return server.call(name, ...)
  end
  return { call = call, pcall = server.pcall }
end)(redis)
local time = redis.call("TIME")
`;

/** Every operation's script, or other texts of them, with the set clock in it. */
export function setClockScripts(
  sourceOf: (name: OperationName) => string = (name) => readOperationSource(name),
): ScriptOverrides {
  return Object.fromEntries(operationNames.map((name) => [name, withSetClock(sourceOf(name))]));
}

/** A script that only reads may still be the first to find a key whose time is over. */
function withSetClock(source: string): string {
  if (source.split(timeLine).length !== 2) throw new Error("a script asks for the time exactly once");
  return source
    .replace("flags=no-writes,", "flags=")
    .replace(" flags=no-writes\n", "\n")
    .replace(timeLine, () => setTime);
}
