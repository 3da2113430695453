// The least rights a Redis user needs: the commands that our scripts and connections use, and nothing beside the prefix.

/** Commands of the scripts. Opening asks for each: a user without one of them would end a script between two writes. */
export const scriptCommands = [
  ...["TIME", "GET", "SET", "DEL", "UNLINK", "PTTL", "PEXPIRE"],
  ...["HGET", "HMGET", "HGETALL", "HSET", "HDEL", "HLEN", "HEXISTS", "HKEYS", "HRANDFIELD"],
  ...[
    "ZADD",
    "ZREM",
    "ZCARD",
    "ZCOUNT",
    "ZLEXCOUNT",
    "ZSCORE",
    "ZRANK",
    "ZRANGE",
    "XADD",
    "XRANGE",
    "XREVRANGE",
  ],
  ...["RPUSH", "LLEN", "LINDEX", "LRANGE", "LSET", "LTRIM"],
] as const;

/** What connections send by themselves: scripts, the check of a server, and what Sentinels, replicas and a Cluster need. */
const connectionCommands = [
  ...["EVALSHA", "EVAL", "PING", "INFO", "ROLE", "WAIT", "ASKING"],
  ...["CLIENT|SETNAME", "CLUSTER|SLOTS", "ACL|WHOAMI"],
] as const;

/** As one redis-cli command, for an installation with this prefix. */
export function leastRights(user: string, prefix: string, password: string): string {
  const commands = [...connectionCommands, ...scriptCommands].map((name) => `+${name.toLowerCase()}`);
  const reset = "reset on";
  return `ACL SETUSER ${user} ${reset} >${password} ~${prefix}:* ${commands.join(" ")}`;
}
