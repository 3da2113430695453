// Processes on one Redis: one whose settings would break promises does not start, others are warned, and doctor knows who lives.
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Config } from "../../src/config.ts";
import { createControlPlane } from "../../src/control-plane.ts";
import {
  type NatsServer,
  type RedisServer,
  startNatsServer,
  startRedisServer,
} from "../../src/drills/servers/start-servers.ts";
import type { Log } from "../../src/ports/ports.ts";
import { startProgram } from "../support/program.ts";

let redis: RedisServer;
let nats: NatsServer;
beforeAll(async () => {
  [redis, nats] = await Promise.all([startRedisServer(), startNatsServer()]);
});
afterAll(async () => {
  await Promise.all([redis.stop(), nats.stop()]);
});

async function open(prefix: string, overrides: Partial<Config> = {}) {
  const lines: object[] = [];
  const note = (message: string, fields?: object) => lines.push({ message, ...fields });
  const log: Log = { info: () => {}, warn: note, error: note };
  const shared = { "store.kind": "redis", "store.redisUrls": redis.url, "store.prefix": prefix } as const;
  const plane = await createControlPlane({ overrides: { ...shared, ...overrides }, ports: { log } });
  return { plane, lines };
}

test("another bus or another audit secret is refused by name while the first process lives", async () => {
  const prefix = "refused";
  const { plane } = await open(prefix, { "audit.secret": "the-first-secret-of-all" });
  const others: ReadonlyArray<readonly [settings: Partial<Config>, detail: RegExp]> = [
    [
      { "audit.secret": "the-first-secret-of-all", "bus.kind": "nats", "bus.natsUrls": nats.url },
      /^bus\.kind is nats, and .* has in-process$/,
    ],
    [{ "audit.secret": "the-second-secret-of-all" }, /^audit\.secret is another one than that of /],
  ];
  for (const [settings, pattern] of others) {
    const detail = expect.stringMatching(pattern);
    await expect(open(prefix, settings)).rejects.toMatchObject({ code: "config_conflict", detail });
  }
  await plane.close();
  const next = await open(prefix, { "audit.secret": "the-second-secret-of-all" });
  await next.plane.close();
});

test("settings that only differ are warned of, in the log and in the status, and gone with their process", async () => {
  const prefix = "warned";
  const first = await open(prefix, { "bus.kind": "nats", "bus.natsUrls": nats.url });
  const second = await open(prefix, {
    "bus.kind": "nats",
    "bus.natsUrls": nats.url,
    "store.eventsPerTenantMax": 500,
  });
  const difference = expect.stringMatching(/^store\.eventsPerTenantMax is 500, and .* has 10000$/);
  expect(second.lines.filter((line) => "difference" in line)).toMatchObject([{ difference }]);
  expect(await second.plane.api.livingProcesses({ version: "1" })).toMatchObject({
    kind: "processes",
    processes: [{ seenMsAgo: 0 }, { roles: ["gateway", "engine", "scheduler"] }],
    findings: [{ level: "warn", message: difference }],
  });
  await first.plane.close();
  expect(await second.plane.api.livingProcesses({ version: "1" })).toMatchObject({ findings: [] });
  await second.plane.close();
});

test("doctor fails while no engine is alive, and says so no more when one is", async () => {
  const settings = {
    STORE: "redis",
    REDIS_URLS: redis.url,
    PREFIX: "engines",
    BUS: "nats",
    NATS_URLS: nats.url,
  };
  const serve = (roles: string) =>
    startProgram("interlock.ts", { args: ["serve", "--roles", roles, "--port", "0"], settings });
  const gateway = serve("gateway");
  try {
    const [line] = await gateway.shows(/^\{"url".*\}$/m, 60_000);
    const { url, keys } = JSON.parse(line) as { url: string; keys: { platform: string } };
    const doctor = async () => {
      const program = startProgram("interlock.ts", {
        args: ["doctor"],
        settings: { ...settings, URL: url, API_KEY: keys.platform },
      });
      return { exit: await program.ended, output: program.output() };
    };
    const without = await doctor();
    expect(without.output).toMatch(/fail +processes: no process with the role engine is alive/);
    expect(without.output).toContain("interlock serve --roles engine");
    expect(without.exit).toBe(1);
    const engine = serve("engine");
    try {
      await engine.shows(/^\{"url".*\}$/m, 60_000);
      expect((await doctor()).output).toMatch(
        /ok +processes: 2 alive on this store, 1 of them with the role engine/,
      );
    } finally {
      await engine.kill();
    }
  } finally {
    await gateway.kill();
  }
});
