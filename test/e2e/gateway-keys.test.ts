// Keys that really end: while a body arrives, for every operation, beyond the first page, with their tenant, on two gateways.
import { once } from "node:events";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { openRedisStore } from "../../src/adapters/redis/redis-store.ts";
import { systemClock } from "../../src/adapters/system/system.ts";
import type { Config } from "../../src/config.ts";
import { type ControlPlane, createControlPlane } from "../../src/control-plane.ts";
import type { KeyRole } from "../../src/domain/api-key.ts";
import { platformTenant, type TenantId } from "../../src/domain/tenant.ts";
import { startRedisServer } from "../../src/drills/servers/start-servers.ts";
import { createGateway, type Gateway } from "../../src/gateway/server.ts";
import { defaultStoreSettings, executeOn, type Store, storeFrom } from "../../src/ports/store.ts";
import { examples, pathOf, type Row, rows } from "../support/gateway-requests.ts";
import { acme, makeKey, type Things } from "../support/gateway-world.ts";
import { openConnection, statusesIn } from "../support/raw-connection.ts";
import { silentLog } from "../support/silent-log.ts";
import { startStoreHost } from "../support/stores.ts";

type Process = {
  readonly url: string;
  readonly plane: ControlPlane;
  readonly gateway: Gateway;
  /** Whether the gateway has found this key to be good. */
  authenticated(keyText: string): boolean;
};

async function startProcess(store: Store, overrides: Partial<Config>): Promise<Process> {
  const plane = await createControlPlane({
    overrides: {
      ...{ "gateway.lingerMs": 0, "gateway.failedAuthenticationsPerMinute": 100_000 },
      // A machine that does other things besides must not make the gateway refuse what is asked here.
      "gateway.eventLoopDelayMs": 60_000,
      ...overrides,
    },
    ports: { store, log: silentLog },
  });
  const authenticated = new Set<string>();
  const api = {
    ...plane.api,
    async authenticate(...given: Parameters<ControlPlane["api"]["authenticate"]>) {
      const answer = await plane.api.authenticate(...given);
      if (answer.kind === "authenticated") authenticated.add(given[0].text);
      return answer;
    },
  };
  const gateway = createGateway({ ...plane, api, version: "test", metricsText: () => "" });
  const { url } = await gateway.listen({ port: 0 });
  return { url, plane, gateway, authenticated: (text) => authenticated.has(text) };
}

type World = { readonly first: Process; readonly second: Process; close(): Promise<void> };

/** Two processes on one store. SQLite belongs to one process, so that both share it there. */
async function openWorld(kind: "sqlite" | "redis", overrides: Partial<Config> = {}): Promise<World> {
  const opened = kind === "sqlite" ? await sharedSqlite() : await redisTwice();
  const first = await startProcess(opened.stores[0], overrides);
  const second = await startProcess(opened.stores[1], overrides);
  await first.plane.api.createTenant({ actor: "setup", tenant: acme, settings: {} });
  return {
    first,
    second,
    async close() {
      for (const { gateway, plane } of [first, second]) {
        await gateway.close();
        await plane.close();
      }
      await opened.close();
    },
  };
}

async function sharedSqlite() {
  const host = await startStoreHost("sqlite");
  const store = await host.open(defaultStoreSettings);
  const share = () => storeFrom(executeOn(store), async () => {});
  return { stores: [share(), share()], close: () => host.close() } as const;
}

async function redisTwice() {
  const server = await startRedisServer();
  const common = { clock: systemClock, log: silentLog, urls: [server.url], settings: defaultStoreSettings };
  const open = () => openRedisStore({ ...common, mode: "standalone", prefix: "interlock" });
  return { stores: [await open(), await open()], close: async () => void (await server.stop()) } as const;
}

const ask = (process: Process, method: string, path: string, key: string, body?: unknown) =>
  fetch(process.url + path, {
    method,
    headers: { "x-api-key": key, ...(body === undefined ? {} : { "content-type": "application/json" }) },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });

/** The head and five bytes of the body; `finish` sends the rest and gives the status of the answer. */
async function beginSlowly(process: Process, row: Row, keyText: string) {
  const body = JSON.stringify(examples[row.operation](nothings).body ?? {}).padEnd(6, " ");
  const socket = await openConnection(process.url);
  let text = "";
  socket.on("data", (chunk: Buffer) => {
    text += chunk.toString("latin1");
  });
  const head = [
    `${row.method} ${pathOf(row, nothings)} HTTP/1.1`,
    "host: localhost",
    `x-api-key: ${keyText}`,
    "content-type: application/json",
    `content-length: ${Buffer.byteLength(body)}`,
    "connection: close",
  ].join("\r\n");
  socket.write(`${head}\r\n\r\n${body.slice(0, 5)}`);
  await vi.waitFor(() => expect(process.authenticated(keyText)).toBe(true), { timeout: 10_000 });
  return {
    async finish(): Promise<number> {
      const closed = once(socket, "close");
      socket.write(body.slice(5));
      await closed;
      return statusesIn(text)[0] ?? 0;
    },
  };
}

/** Names that exist nowhere: a key that is refused must not even learn that. */
const nothings: Things = {
  ...{
    runId: "run_00_x",
    listRunId: "run_00_y",
    queuedRunId: "run_00_z",
    jobId: "run_00_x:one@1",
    claimToken: "c",
  },
  ...{
    approvalId: "run_00_x:ok@1",
    approvalHash: "0".repeat(64),
    keyId: "acme.0000",
    letterId: "run_00_x:one@1",
  },
  ...{ lockToken: "t", lockFence: 1, canaryId: "canary-x" },
};

const writing = rows.filter(({ method, access }) => method !== "GET" && typeof access !== "string");

async function keyFor(process: Process, { access }: Row) {
  const roles = access as readonly KeyRole[];
  const role = roles.includes("admin") ? "admin" : (roles[0] ?? "admin");
  return makeKey(process.plane, role === "platform" ? platformTenant : acme, role);
}

describe.each(["sqlite", "redis"] as const)("on %s, a key that is revoked while a body arrives", (kind) => {
  let world: World;
  // Remembered for as short as may be set: what another process revoked is then known within a tenth of a second.
  const keepMs = 100;
  beforeAll(async () => {
    world = await openWorld(kind, { "admission.tenantCacheMs": keepMs });
  });
  afterAll(() => world.close());

  test.each(["first", "second"] as const)(
    "ends every operation that changes anything, revoked at the %s gateway",
    async (revoker) => {
      const { first } = world;
      const begun = await Promise.all(
        writing.map(async (row) => {
          const { key, text } = await keyFor(first, row);
          return { row, key, slow: await beginSlowly(first, row, text) };
        }),
      );
      const { api } = world[revoker].plane;
      for (const { key } of begun) {
        expect(await api.revokeKey({ by: "root", tenant: key.tenant, keyId: key.keyId })).toEqual({
          kind: "revoked",
        });
      }
      if (revoker === "second") await systemClock.sleep(keepMs + 1);
      const statuses = await Promise.all(
        begun.map(async ({ row, slow }) => [row.operation, await slow.finish()] as const),
      );
      expect(statuses.length).toBeGreaterThan(30);
      expect(statuses.filter(([, status]) => status !== 401)).toEqual([]);
    },
  );

  test("that expires meanwhile ends it, too", async () => {
    const { first } = world;
    const expiresAtMs = systemClock.wallMs() + 1_000;
    const made = await first.plane.api.createKey({
      by: "root",
      tenant: acme,
      role: "admin",
      name: "brief",
      expiresAtMs,
    });
    if (made.kind !== "created") throw new Error(made.kind);
    const slow = await beginSlowly(first, rowOf("createKey"), made.text);
    await vi.waitFor(() => expect(systemClock.wallMs()).toBeGreaterThan(expiresAtMs + 200), {
      timeout: 5_000,
    });
    expect(await slow.finish()).toBe(401);
  });
});

const rowOf = (operation: Row["operation"]): Row => {
  const row = rows.find((each) => each.operation === operation);
  if (row === undefined) throw new Error(operation);
  return row;
};

describe.each(["sqlite", "redis"] as const)("on %s, a key that another gateway still remembers", (kind) => {
  let world: World;
  beforeAll(async () => {
    world = await openWorld(kind);
  });
  afterAll(() => world.close());

  const compared = ["createKey", "saveWorkflow", "setPool", "setTopic", "acquireLock", "startRun"] as const;
  test.each(compared)("does not %s from the moment of its revocation on", async (operation) => {
    const { first, second } = world;
    await first.plane.api.saveWorkflow({
      caller: { tenant: acme, actor: "setup" },
      definition: {
        ...{ id: "simple", name: "Simple" },
        steps: { one: { type: "worker", topic: "work" } },
      },
    });
    const { key, text } = await keyFor(first, rowOf(operation));
    const slow = await beginSlowly(first, rowOf(operation), text);
    expect(await second.plane.api.revokeKey({ by: "root", tenant: acme, keyId: key.keyId })).toEqual({
      kind: "revoked",
    });
    expect(await slow.finish()).toBe(401);
  });

  test("does so also when a hundred others were revoked after it", async () => {
    const { first, second } = world;
    const { key, text } = await keyFor(first, rowOf("createKey"));
    const slow = await beginSlowly(first, rowOf("createKey"), text);
    await second.plane.api.revokeKey({ by: "root", tenant: acme, keyId: key.keyId });
    for (let index = 0; index < 101; index += 1) {
      const other = await makeKey(second.plane, acme, "viewer");
      expect(await second.plane.api.revokeKey({ by: "root", tenant: acme, keyId: other.key.keyId })).toEqual({
        kind: "revoked",
      });
    }
    expect(await slow.finish()).toBe(401);
  });

  test("and of the platform is asked for again: it changes no tenant", async () => {
    const { first, second } = world;
    const { key, text } = await makeKey(first.plane, platformTenant, "platform");
    expect((await ask(first, "GET", "/api/v1/tenants", text)).status).toBe(200);
    await second.plane.api.revokeKey({ by: "root", tenant: platformTenant, keyId: key.keyId });
    expect((await ask(first, "PATCH", "/api/v1/tenants/acme", text, { stopped: true })).status).toBe(401);
    expect((await ask(first, "DELETE", "/api/v1/tenants/acme", text)).status).toBe(401);
    expect(await first.plane.api.getTenant({ tenant: acme })).toMatchObject({
      kind: "tenant",
      record: { settings: {} },
    });
  });
});

describe.each(["sqlite", "redis"] as const)("on %s, a tenant that is removed", (kind) => {
  let world: World;
  let root: string;
  beforeAll(async () => {
    world = await openWorld(kind, { "admission.tenantCacheMs": 100 });
    root = (await makeKey(world.first.plane, platformTenant, "platform")).text;
  });
  afterAll(() => world.close());

  const create = (tenant: string) =>
    ask(world.first, "POST", "/api/v1/tenants", root, { id: tenant, quotas: { api_keys: 2_000 } });
  const isGood = async (process: Process, text: string) =>
    (await process.plane.api.authenticate({ text, from: "stored" })).kind === "authenticated";

  test("leaves none of 1,100 keys behind, and none of them makes another", async () => {
    await create("crowd");
    const crowd = "crowd" as TenantId;
    const options = { role: "admin", name: "one of many" } as const;
    const made = (
      await inGroups(1_100, () => world.first.plane.api.createKey({ by: "setup", tenant: crowd, ...options }))
    ).map((answer) => (answer.kind === "created" ? answer.text : ""));
    expect(new Set(made).size).toBe(1_100);
    const pages = await readAllKeys(world.first, root, "crowd");
    expect(pages).toHaveLength(1_100);

    expect((await ask(world.first, "DELETE", "/api/v1/tenants/crowd", root)).status).toBe(204);
    const good = await inGroups(1_100, (index) => isGood(world.second, made[index] ?? ""));
    expect(good.filter(Boolean)).toEqual([]);
    expect((await ask(world.second, "POST", "/api/v1/keys", made[1_050] ?? "", options)).status).toBe(401);
    const forIt = await ask(world.first, "POST", "/api/v1/keys", root, { ...options, tenant: "crowd" });
    expect(forIt.status).toBe(404);

    // A tenant of the same name has keys of its own, and none of the old one's.
    expect((await create("crowd")).status).toBe(201);
    const fresh = await makeKey(world.first.plane, crowd, "admin");
    expect(await isGood(world.second, fresh.text)).toBe(true);
    expect(await isGood(world.second, made[0] ?? "")).toBe(false);
  });

  test("ends all keys that are made while it goes, whatever key makes them", async () => {
    await create("busy");
    const busy = "busy" as TenantId;
    const { text } = await makeKey(world.second.plane, busy, "admin");
    const made: string[] = [text];
    let isOver = false;
    const makeOn = async (process: Process, key: string, body: object) => {
      while (!isOver) {
        const answer = await ask(process, "POST", "/api/v1/keys", key, body);
        if (answer.status === 201) made.push(((await answer.json()) as { key: string }).key);
        else await answer.arrayBuffer();
      }
    };
    const makers = [
      makeOn(world.second, text, { role: "admin", name: "by its admin" }),
      makeOn(world.first, root, { role: "admin", name: "by the platform", tenant: "busy" }),
    ];
    await vi.waitFor(() => expect(made.length).toBeGreaterThan(10), { timeout: 20_000 });
    expect((await ask(world.first, "DELETE", "/api/v1/tenants/busy", root)).status).toBe(204);
    isOver = true;
    await Promise.all(makers);
    const good = await inGroups(made.length, (index) => isGood(world.second, made[index] ?? ""));
    expect(good.filter(Boolean)).toEqual([]);
    expect(await world.first.plane.api.listKeys({ tenant: busy })).toMatchObject({
      kind: "listed",
      keys: [],
    });
  });

  test("has no key any more that works after a removal that died half-way", async () => {
    await create("half");
    const half = "half" as TenantId;
    const { text } = await makeKey(world.first.plane, half, "admin");
    const record = await world.first.plane.api.getTenant({ tenant: half });
    if (record.kind !== "tenant") throw new Error(record.kind);
    await world.first.plane.api.changeTenant({ actor: "root", tenant: half, changes: { removed: true } });
    expect(await isGood(world.second, text)).toBe(false);
    expect((await ask(world.first, "DELETE", "/api/v1/tenants/half", root)).status).toBe(204);
  });
});

async function readAllKeys(process: Process, root: string, tenant: string): Promise<string[]> {
  const ids: string[] = [];
  for (let cursor = ""; ; ) {
    const more = cursor === "" ? "" : `&cursor=${encodeURIComponent(cursor)}`;
    const answer = await ask(process, "GET", `/api/v1/keys?tenant=${tenant}&limit=400${more}`, root);
    const page = (await answer.json()) as { items: Array<{ id: string }>; next_cursor: string | null };
    ids.push(...page.items.map(({ id }) => id));
    if (page.next_cursor === null) return ids;
    cursor = page.next_cursor;
  }
}

async function inGroups<Value>(count: number, make: (index: number) => Promise<Value>): Promise<Value[]> {
  const values: Value[] = [];
  for (let first = 0; first < count; first += 100) {
    const group = Array.from({ length: Math.min(100, count - first) }, (_, index) => make(first + index));
    values.push(...(await Promise.all(group)));
  }
  return values;
}
