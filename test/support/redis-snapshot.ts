// The whole content of a Redis server as lines to compare: every key with a digest of its value and when it expires.
import type { RedisServer } from "../../src/drills/servers/start-servers.ts";

const source = `
local lines = {}
for _, key in ipairs(redis.call("KEYS", "*")) do
  local content
  if redis.call("TYPE", key).ok == "hash" then
    -- In a larger hash the order of fields changes while Redis moves them to a new table: only what they say counts.
    local fields = redis.call("HGETALL", key)
    local pairs = {}
    for index = 1, #fields, 2 do pairs[#pairs + 1] = fields[index] .. "=" .. fields[index + 1] end
    table.sort(pairs)
    content = table.concat(pairs, "\\n")
  else
    content = redis.call("DUMP", key)
  end
  local value = redis.sha1hex(content)
  lines[#lines + 1] = key .. " " .. value .. " " .. string.format("%.0f", redis.call("PEXPIRETIME", key))
end
table.sort(lines)
return lines`;

export function takeSnapshot(server: RedisServer): Promise<string[]> {
  return server.command<string[]>("EVAL", source, "0");
}

/** The keys whose lines are not the same in both. */
export function changedKeys(before: readonly string[], after: readonly string[]): string[] {
  const same = new Set(before.filter((line) => after.includes(line)));
  const lines = [...before, ...after].filter((line) => !same.has(line));
  return [...new Set(lines.map((line) => line.split(" ")[0] as string))].sort();
}
