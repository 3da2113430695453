// The locks benchmark runs, measures everything it promises, and counts waits and commands as it says.
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { contend, type Grant, jainIndex, sentCommands } from "../../bench/lock-contention.ts";
import { type RedisServer, startRedisServer } from "../../src/drills/servers/start-servers.ts";

const root = dirname(dirname(import.meta.dirname));
const deadlineMs = 150_000;

const kinds = ["queue", "jitter", "fixed", "redlock", "redis-semaphore", "redlock-universal"];
const fields = ["per_s", "p50_ms", "p95_ms", "max_ms", "jain", "commands_per_acquisition"];

describe("a quick run", () => {
  let folder: string;
  let exit: number | null;
  let output = "";
  const values = new Map<string, number>();

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "interlock-bench-"));
    const jsonPath = join(folder, "numbers.json");
    const words = ["--import", "tsx", "bench/locks.ts", "--quick", "--json", jsonPath];
    const child = spawn("node", words, { cwd: root, stdio: ["ignore", "pipe", "pipe"], timeout: deadlineMs });
    for (const stream of [child.stdout, child.stderr]) {
      stream.on("data", (chunk: Buffer) => {
        output += chunk.toString();
      });
    }
    exit = await new Promise((resolve, reject) => {
      child.on("error", reject);
      child.on("close", resolve);
    });
    if (exit !== 0) return;
    const metrics: Array<{ name: string; value: number }> = JSON.parse(readFileSync(jsonPath, "utf8"));
    for (const { name, value } of metrics) values.set(name, value);
  }, deadlineMs + 5_000);

  afterAll(() => {
    rmSync(folder, { recursive: true, force: true });
  });

  test("measures every promised number and says which bars are met", () => {
    expect(exit, output).toBe(0);
    const names = kinds.flatMap((kind) => fields.map((field) => `locks.redis.${kind}.c100.${field}`));
    expect([...values.keys()].sort()).toEqual(names.sort());
    expect([...values.values()].every(Number.isFinite)).toBe(true);
    expect(output).toMatch(/^(met|MISSED) .*commands per acquisition in the queue/m);
    expect(output).toMatch(/^(met|MISSED) .*Jain's fairness index of the queue/m);
    for (const library of kinds.slice(3)) {
      expect(output).toMatch(new RegExp(`^(met|MISSED) .*p95 wait in the queue / with ${library}:`, "m"));
    }
  });

  test("finds the queue fair on any machine, and a lock always two commands at the least", () => {
    expect(values.get("locks.redis.queue.c100.jain")).toBeGreaterThan(0.9);
    for (const kind of kinds) {
      const commands = values.get(`locks.redis.${kind}.c100.commands_per_acquisition`);
      expect(commands, kind).toBeGreaterThan(1.9);
    }
  });
});

describe("what is counted", () => {
  let server: RedisServer;
  beforeAll(async () => {
    server = await startRedisServer();
  });
  afterAll(() => server.stop());

  const load = { contenders: 3, workMs: 1, elsewhereMs: 1, warmUpMs: 20, windowMs: 200 };
  const none = { sent: [], insideScripts: [] };

  test("are waits that never ended, and giving up does not begin a wait anew", async () => {
    const result = await contend(server.url, load, none, async (contender): Promise<Grant> => {
      await new Promise((resolve) => {
        setTimeout(resolve, contender === 0 ? 1 : 30);
      });
      return contender === 0 ? { release: async () => {} } : "gave_up";
    });
    expect(result.max_ms).toBeGreaterThanOrEqual(200);
    expect(result.jain).toBeCloseTo(1 / 3);
    expect(result.p50_ms).toBeLessThan(30);
  });

  test("are the commands that clients send, and nothing is counted by guess", () => {
    const stats =
      "cmdstat_evalsha:calls=7,usec=1\r\ncmdstat_get:calls=70,usec=1\r\ncmdstat_ping:calls=1,usec=1\r\n";
    expect(sentCommands(stats, { sent: ["evalsha"], insideScripts: ["get"] })).toBe(7);
    expect(() => sentCommands(stats, { sent: ["evalsha"], insideScripts: [] })).toThrow(/^get was called 70/);
  });

  test("is fairness between one for all and one over n", () => {
    expect(jainIndex([5, 5, 5, 5])).toBe(1);
    expect(jainIndex([20, 0, 0, 0])).toBe(0.25);
  });

  test("is no lock at all if two hold it at once", async () => {
    const broken = contend(server.url, load, none, async () => ({ release: async () => {} }));
    await expect(broken).rejects.toThrow("two contenders hold the lock");
  });
});
