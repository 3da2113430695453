// Which errors of Redis mean that a script had no effect, and how redirections are read.
import { describe, expect, test } from "vitest";
import { refusalWithoutEffect } from "../../src/adapters/redis/scripts.ts";
import { parseServerAddress, sameClusterAddress } from "../../src/adapters/redis/server-address.ts";
import { parseRedirection } from "../../src/adapters/redis/topology.ts";

describe("refusals", () => {
  test.each([
    "OOM allow-oom flag is not set on the script, can not run it when used memory > 'maxmemory'",
    "LOADING Redis is loading the dataset in memory",
    "READONLY Can not run script with write flag on readonly replica.",
    "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
    "CLUSTERDOWN The cluster is down",
    "TRYAGAIN Multiple keys request during rehashing of slot",
    "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
    "NOREPLICAS Not enough good replicas to write.",
    "NOAUTH Authentication required.",
    "NOPERM this user has no permissions to run the 'evalsha' command",
    "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist on disk.",
    "MOVED 3999 127.0.0.1:6381",
  ])("%s: nothing happened", (message) => {
    expect(refusalWithoutEffect(message)).toBe(message);
  });

  test("a key that is just moving to another node is met before the first write", () => {
    const message =
      "ERR Script attempted to access a non local key in a cluster node script: ab, on @user_script:9.";
    expect(refusalWithoutEffect(message)).toBe("the slot is moving to another server");
  });

  test.each([
    "WRONGTYPE Operation against a key holding the wrong kind of value script: ab, on @user_script:5.",
    "OOM command not allowed when used memory > 'maxmemory'. script: ab, on @user_script:5.",
    "ERR value is not an integer or out of range script: ab, on @user_script:5.",
    "ERR unknown command 'EVALSHA'",
    "CROSSSLOT Keys in request don't hash to the same slot",
  ])("%s: a bug, not a refusal", (message) => {
    expect(refusalWithoutEffect(message)).toBeUndefined();
  });
});

describe("redirections", () => {
  test("name the server, also one with colons in its address and one without a host", () => {
    expect(parseRedirection("MOVED 3999 10.0.0.1:6381")).toEqual({
      kind: "moved",
      host: "10.0.0.1",
      port: 6381,
    });
    expect(parseRedirection("ASK 3999 fd00::1:6381")).toEqual({ kind: "ask", host: "fd00::1", port: 6381 });
    expect(parseRedirection("MOVED 3999 :6381")).toEqual({ kind: "moved", host: "", port: 6381 });
    expect(parseRedirection("ERR MOVED 3999 10.0.0.1:6381")).toBeUndefined();
  });

  test("lead to an address with the credentials of the first one, which are never part of its name", () => {
    const known = parseServerAddress("rediss://user:secret@cache.example:7000/0");
    expect(known.name).toBe("cache.example:7000");
    expect(sameClusterAddress(known, "10.0.0.1", 6381)).toEqual({
      name: "10.0.0.1:6381",
      host: "10.0.0.1",
      port: 6381,
      access: { username: "user", password: "secret", tls: {} },
    });
    expect(sameClusterAddress(known, "fd00::1", 6381)).toMatchObject({
      name: "[fd00::1]:6381",
      host: "fd00::1",
    });
    expect(parseServerAddress("redis://[fd00::1]:7000/3")).toMatchObject({
      name: "[fd00::1]:7000",
      host: "fd00::1",
      database: 3,
    });
    expect(sameClusterAddress(known, undefined, 6381).name).toBe("cache.example:6381");
    expect(parseServerAddress("redis://localhost").name).toBe("localhost:6379");
  });
});
