// A process that is started while its servers are away: it lives, is not ready and says why, and becomes ready by itself.
import { afterAll, beforeAll, describe, test } from "vitest";
import { makeKeyText } from "../../src/domain/api-key.ts";
import {
  freePort,
  type NatsServer,
  type RedisServer,
  startNatsServer,
  startRedisServer,
} from "../../src/drills/servers/start-servers.ts";
import { type Program, startProgram } from "../support/program.ts";

let redis: RedisServer;
let nats: NatsServer;
let locked: NatsServer;
beforeAll(async () => {
  [redis, nats, locked] = await Promise.all([
    startRedisServer(),
    startNatsServer(),
    startNatsServer({ config: "authorization { user: interlock, password: right-password }" }),
  ]);
});
afterAll(async () => {
  await Promise.all([redis.stop(), nats.stop(), locked.stop()]);
});

type Serving = { readonly program: Program; readonly url: string };

async function serve(settings: Readonly<Record<string, string>>): Promise<Serving> {
  const port = await freePort();
  const program = startProgram("serve.ts", {
    settings: { STORE: "redis", REDIS_URLS: redis.url, GATEWAY_PORT: String(port), ...settings },
  });
  return { program, url: `http://127.0.0.1:${port}` };
}

/** It could be a key: whether it is one only the store knows. */
const key = makeKeyText({ keyId: "default.0123456789abcdef", secret: "0123456789abcdef".repeat(3) });

const ask = (url: string, path: string) => fetch(`${url}${path}`, { headers: { "x-api-key": key } });

/** Seven programs start at once, and share the machine with other tests. */
const patienceMs = 90_000;

/** What it waits for, as its log says. */
const waiting = /"msg":"this process cannot start yet: it waits"/;

describe("waits, not ready, and becomes ready by itself", () => {
  test.concurrent.for([
    {
      title: "while Redis is away",
      async begin() {
        const server = await startRedisServer();
        await server.kill();
        return {
          settings: { REDIS_URLS: server.url },
          detail: "starting: the store cannot be reached",
          mend: () => server.restart(),
          end: () => server.stop(),
        };
      },
    },
    {
      title: "while NATS is away",
      async begin() {
        const server = await startNatsServer();
        await server.kill();
        return {
          settings: { BUS: "nats", NATS_URLS: server.url, PREFIX: "bus-away" },
          detail: "starting: the bus cannot be reached",
          mend: () => server.restart(),
          end: () => server.stop(),
        };
      },
    },
    {
      title: "while Redis has too few replicas",
      async begin() {
        const server = await startRedisServer(["--min-replicas-to-write", "1"]);
        return {
          settings: { REDIS_URLS: server.url },
          detail: "starting: the store has too few replicas",
          mend: () => server.command("CONFIG", "SET", "min-replicas-to-write", "0"),
          end: () => server.stop(),
        };
      },
    },
  ])("$title", async ({ begin }, { expect }) => {
    const outage = await begin();
    const { program, url } = await serve(outage.settings);
    try {
      await program.shows(waiting, patienceMs);
      expect((await ask(url, "/livez")).status).toBe(200);
      const notReady = await ask(url, "/readyz");
      expect(notReady.status).toBe(503);
      expect(await notReady.json()).toMatchObject({ code: "store_unavailable", detail: outage.detail });
      const refused = await ask(url, "/api/v1/status");
      expect(refused.status).toBe(503);
      expect(refused.headers.get("retry-after")).toMatch(/^\d+$/);
      expect(program.output()).not.toContain('{"url"');
      await outage.mend();
      await program.shows(/^\{"url".*\}$/m, patienceMs);
      expect((await ask(url, "/readyz")).status).toBe(200);
      expect(program.output().match(new RegExp(waiting, "g"))).toHaveLength(1);
      program.process.kill("SIGTERM");
      expect(await program.ended).toBe(0);
    } finally {
      await program.kill();
      await outage.end();
    }
  });

  test.concurrent("and stops in good order when it is told to meanwhile", async ({ expect }) => {
    const gone = await startRedisServer();
    await gone.stop();
    const { program } = await serve({ REDIS_URLS: gone.url });
    try {
      await program.shows(waiting, patienceMs);
      program.process.kill("SIGTERM");
      expect(await program.ended).toBe(0);
      expect(program.output()).not.toContain("store_unavailable");
    } finally {
      await program.kill();
    }
  });
});

describe("ends at once and says what to change", () => {
  test.concurrent.for([
    {
      title: "a wrong password of Redis",
      settings: () => ({ REDIS_URLS: redis.url, REDIS_USER: "nobody", REDIS_PASSWORD: "wrong-password" }),
      says: [/WRONGPASS/, /store\.redisPassword/],
    },
    {
      title: "a wrong password of NATS",
      settings: () => ({
        BUS: "nats",
        NATS_URLS: locked.url,
        NATS_USER: "interlock",
        NATS_PASSWORD: "wrong-password",
      }),
      says: [/Authorization Violation/, /bus\.natsPassword/],
    },
    {
      title: "a server that is no Cluster",
      settings: () => ({ REDIS_MODE: "cluster" }),
      says: [/cluster support disabled/, /store\.redisMode/],
    },
  ])("$title", async ({ settings, says }, { expect }) => {
    const { program } = await serve(settings());
    try {
      expect(await program.ended, program.output()).toBe(1);
      for (const pattern of says) expect(program.output()).toMatch(pattern);
      expect(program.output()).not.toMatch(/Retry-After|wrong-password/);
    } finally {
      await program.kill();
    }
  });
});
