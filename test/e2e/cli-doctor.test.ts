// interlock doctor looks at the Redis and the NATS that a configuration names, and says what to fix when one is gone.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  type NatsServer,
  type RedisServer,
  startNatsServer,
  startRedisServer,
} from "../../src/drills/servers/start-servers.ts";
import type { Finding } from "../../src/ports/ports.ts";
import { typeCommand } from "../support/command-line.ts";

let folder: string;
let redis: RedisServer;
let nats: NatsServer;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "interlock-doctor-"));
  [redis, nats] = await Promise.all([startRedisServer(), startNatsServer()]);
});
afterAll(async () => {
  await Promise.all([redis.stop(), nats.stop()]);
  rmSync(folder, { recursive: true, force: true });
});

async function examine(): Promise<{ readonly code: number; readonly findings: readonly Finding[] }> {
  const said = await typeCommand(folder, ["doctor", "--json"], {
    env: {
      INTERLOCK_STORE: "redis",
      INTERLOCK_REDIS_URLS: redis.url,
      INTERLOCK_BUS: "nats",
      INTERLOCK_NATS_URLS: nats.url,
    },
  });
  return { code: said.code, findings: said.json<{ findings: readonly Finding[] }>().findings };
}

const about = (findings: readonly Finding[], subject: "redis" | "nats") =>
  findings.filter((finding) => finding.subject.startsWith(subject));

test("servers that are there are described, and a setting that loses data is said with its remedy", async () => {
  await redis.command("CONFIG", "SET", "maxmemory-policy", "allkeys-lru");
  const { code, findings } = await examine();
  expect(code).toBe(1);
  const evicting = about(findings, "redis").filter(({ level }) => level === "fail");
  expect(evicting).toMatchObject([
    { message: expect.stringContaining("allkeys-lru"), remedy: expect.stringContaining("noeviction") },
  ]);
  expect(about(findings, "nats")).toContainEqual(
    expect.objectContaining({ level: "ok", message: expect.stringContaining("version") }),
  );
  await redis.command("CONFIG", "SET", "maxmemory-policy", "noeviction");
  expect(await examine()).toMatchObject({ code: 0 });
});

test("servers that are gone are to be fixed, both at once", async () => {
  await Promise.all([redis.kill(), nats.kill()]);
  const { code, findings } = await examine();
  expect(code).toBe(1);
  for (const subject of ["redis", "nats"] as const)
    expect(about(findings, subject)).toMatchObject([{ level: "fail", remedy: expect.any(String) }]);
});
