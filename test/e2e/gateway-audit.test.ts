// The audit trail over HTTP on real stores: one byte in the file or on the server is found and named.
import { rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openRedisStore } from "../../src/adapters/redis/redis-store.ts";
import { loadDriver } from "../../src/adapters/sqlite/driver.ts";
import { systemClock } from "../../src/adapters/system/system.ts";
import { createControlPlane } from "../../src/control-plane.ts";
import { type RedisServer, startRedisServer } from "../../src/drills/servers/start-servers.ts";
import { defaultStoreSettings } from "../../src/ports/store.ts";
import { typeCommand } from "../support/command-line.ts";
import { expectProblem } from "../support/gateway-requests.ts";
import { acme, type GatewayWorld, openGatewayWorld, type TestKey } from "../support/gateway-world.ts";
import { silentLog } from "../support/silent-log.ts";
import { fileIn, openStoreIn } from "../support/sqlite-support.ts";
import { diskFolder } from "../support/stores.ts";

const workflow = (id: string) => ({ id, name: id, steps: { one: { type: "worker", topic: "t" } } });

async function saveWorkflows(world: GatewayWorld, count: number): Promise<void> {
  for (let index = 0; index < count; index += 1) {
    const sent = { key: world.acme.admin, body: workflow(`w${index}`) };
    expect((await world.ask("POST", "/api/v1/workflows", sent)).status).toBe(201);
  }
}

async function verify(world: GatewayWorld, query = "", key: TestKey = world.acme.viewer) {
  const answer = await world.ask("GET", `/api/v1/audit/verify${query}`, { key });
  expect(answer.status, answer.text).toBe(200);
  return answer.json;
}

describe("over HTTP", () => {
  let world: GatewayWorld;
  beforeAll(async () => {
    world = await openGatewayWorld();
    await saveWorkflows(world, 3);
  });
  afterAll(() => world.close());

  test("a tenant reads and verifies its own trail, a platform key any, and nobody another's", async () => {
    const own = await verify(world);
    expect(own).toMatchObject({ status: "intact", tenant: "acme", gaps: [], kept_from: 1 });
    expect(own.head).toMatch(new RegExp(`^${own.sealed_to}:[A-Za-z0-9_-]{43}$`));
    expect(own.total_events).toBe(own.sealed_to);
    const read = await world.ask("GET", "/api/v1/audit?limit=500", { key: world.acme.viewer });
    const items = read.json.items as Array<{ sequence: number; hash: string; detail: string; type: string }>;
    expect(`${items.at(-1)?.sequence}:${items.at(-1)?.hash}`).toBe(own.head);
    expect(await verify(world, "?tenant=acme", world.platform)).toMatchObject({ head: own.head });
    expect(await verify(world, "?tenant=platform", world.platform)).toMatchObject({ tenant: "platform" });
    expect(await verify(world, "", world.platform)).toMatchObject({ tenant: "platform", status: "intact" });
    for (const path of ["/api/v1/audit", "/api/v1/audit/verify"]) {
      const foreign = await world.ask("GET", `${path}?tenant=acme`, { key: world.globex.admin });
      expectProblem(undefined, foreign, "tenant_mismatch");
      expectProblem(undefined, await world.ask("GET", path, { key: world.acme.worker }), "forbidden");
    }
  });

  test("a head that was noted is compared with the chain", async () => {
    const { head } = await verify(world);
    await saveWorkflows(world, 1);
    expect(await verify(world, `?expect=${head}`)).toMatchObject({ status: "intact", expected: "same" });
    const [sequence = "", hash = ""] = String(head).split(":");
    const other = `${sequence}:${"A".repeat(hash.length)}`;
    expect(await verify(world, `?expect=${other}`)).toMatchObject({
      status: "broken",
      expected: "different",
      first_broken: { sequence: Number(sequence), why: "hash_changed" },
    });
    const bad = await world.ask("GET", "/api/v1/audit/verify?expect=7", { key: world.acme.admin });
    expectProblem(undefined, bad, "invalid_request");
  });

  test("records say what was changed: settings, and keys with role and name, but never a secret", async () => {
    const body = { max_concurrent_runs: 5, admission_strategy: "lock" };
    await world.ask("PATCH", "/api/v1/tenants/acme", { key: world.platform, body });
    const key = { role: "worker", name: "night shift" };
    const made = await world.ask("POST", "/api/v1/keys", { key: world.acme.admin, body: key });
    await world.ask("DELETE", `/api/v1/keys/${made.json.id}`, { key: world.acme.admin });
    const detailsOf = async (type: string) => {
      const read = await world.ask("GET", `/api/v1/audit?type=${type}&limit=500`, { key: world.acme.admin });
      return (read.json.items as Array<{ detail: string }>).map(({ detail }) => detail);
    };
    const settings = await detailsOf("tenant_changed");
    expect(settings.at(-2)).toMatch(/^admission_strategy=lock max_concurrent_runs=5 \w+$/);
    expect(settings.at(-1)).toMatch(new RegExp(`^revoked_key_ids=\\+${made.json.id} \\w+$`));
    expect((await detailsOf("document_saved")).at(-1)).toBe(`name="night shift" role=worker ${made.json.id}`);
  });

  test("a page goes on with its cursor, and with an actor shows only what that one did", async () => {
    const page = async (query: string) =>
      (await world.ask("GET", `/api/v1/audit?${query}`, { key: world.acme.viewer })).json as {
        items: Array<{ sequence: number; actor: string }>;
        next_cursor: string | null;
      };
    const first = await page("limit=2");
    expect(first.items.map(({ sequence }) => sequence)).toEqual([1, 2]);
    const second = await page(`limit=2&cursor=${first.next_cursor}`);
    expect(second.items.map(({ sequence }) => sequence)).toEqual([3, 4]);
    expect((await page("limit=2&after=4")).items.map(({ sequence }) => sequence)).toEqual([5, 6]);
    const { keyId } = world.acme.admin.key;
    const mine = await page(`limit=100&actor=${keyId}`);
    expect(new Set(mine.items.map(({ actor }) => actor))).toEqual(new Set([keyId]));
    const mixed = await world.ask("GET", `/api/v1/audit?after=4&cursor=${first.next_cursor}`, {
      key: world.acme.viewer,
    });
    expectProblem(undefined, mixed, "invalid_request");
  });
});

test("refused changes stand in the trail of who asked, and those without a key in the platform's", async () => {
  const world = await openGatewayWorld({ "audit.refusals": "yes" });
  const refuse = async (key: TestKey | string, times: number) => {
    for (let index = 0; index < times; index += 1)
      await world.ask("POST", "/api/v1/workflows", { key, body: workflow("w") });
  };
  await refuse(world.acme.worker, 3);
  await refuse("ilk_no.such_key", 2);
  await world.ask("POST", "/api/v1/workflows", { key: world.acme.admin, body: { id: "w", steps: {} } });
  await world.ask("GET", "/api/v1/workflows", { key: world.acme.worker });
  await world.gateway.close();
  const refusals = async (tenant: typeof acme) => {
    const read = await world.plane.api.readEvents({ tenant, after: 0, limit: 1_000 });
    if (read.kind !== "events") throw new Error(read.kind);
    const rows = read.events.filter(({ subject }) => subject.startsWith("refusal/"));
    return rows.map(({ detail }) => detail.replaceAll(/\S+Z | by .*/g, "")).join(" ");
  };
  // A minute may end in between: then there are two records of one kind.
  expect(await refusals(acme)).toMatch(/forbidden=3|forbidden=\d.*forbidden=\d/);
  expect(await refusals(acme)).toContain("workflow_invalid=1");
  expect(await refusals("platform" as typeof acme)).toMatch(
    /unauthenticated=2|unauthenticated=1.*unauthenticated=1/,
  );
  await world.close();
});

test("audit verify on the command line ends with exit code 1 when a record is not what it was, and names it", async () => {
  const world = await openGatewayWorld();
  await saveWorkflows(world, 2);
  const { head } = await verify(world);
  const typed = (...words: string[]) =>
    typeCommand(tmpdir(), [...words, "--url", world.url, "--api-key", world.acme.admin.text]);
  const same = await typed("audit", "verify", "--expect", String(head));
  expect([same.code, same.stdout]).toEqual([0, expect.stringMatching(/expected head +same/)]);
  const [sequence = ""] = String(head).split(":");
  const other = await typed("audit", "verify", "--expect", `${sequence}:${"A".repeat(43)}`);
  expect([other.code, other.stdout]).toEqual([1, expect.stringMatching(/status +broken/)]);
  expect(other.stdout).toContain(`Record ${sequence} is the first that is broken: its hash is not the one`);
  expect((await typed("audit", "verify", "--expect", "7")).code).toBe(2);
  await world.close();
});

describe("one byte", () => {
  let folder: string;
  let redis: RedisServer;
  beforeAll(async () => {
    folder = diskFolder();
    redis = await startRedisServer();
  });
  afterAll(async () => {
    rmSync(folder, { recursive: true, force: true });
    await redis.stop();
  });

  test("of a row in the database file is found, and so is a row that is gone", async () => {
    const before = await openGatewayWorld({}, await openStoreIn(folder));
    await saveWorkflows(before, 5);
    expect(await verify(before)).toMatchObject({ status: "intact" });
    await before.close();
    const change = async (sql: string) => {
      const database = (await loadDriver())(fileIn(folder), { readOnly: false });
      database.exec(sql);
      database.close();
      const after = await openGatewayWorld({}, await openStoreIn(folder));
      const verdict = await verify(after);
      await after.close();
      return verdict;
    };
    const row = (sequence: number) => `scope = 'acme' AND json_extract(value, '$.sequence') = ${sequence}`;
    const flipped = await change(
      `UPDATE trail SET value = replace(value, '"atMs":1', '"atMs":2') WHERE ${row(6)}`,
    );
    expect(flipped).toMatchObject({ status: "broken", first_broken: { sequence: 6, why: "row_changed" } });
    const gone = await change(`DELETE FROM trail WHERE ${row(3)}`);
    expect(gone).toMatchObject({ status: "broken", first_broken: { sequence: 3, why: "row_missing" } });
  });

  test("of a row whose seals were removed is found after a restart, by the head that is kept beside the data", async () => {
    const directory = join(folder, "embedded");
    const open = () =>
      createControlPlane({
        overrides: { "store.dataDirectory": directory },
        ports: { log: silentLog },
        engine: "stopped",
      });
    const first = await open();
    for (const id of ["a", "b", "c"])
      await first.api.saveWorkflow({ caller: { tenant: acme, actor: "ann" }, definition: workflow(id) });
    expect(await first.api.verifyTrail({ tenant: acme })).toMatchObject({ status: "intact" });
    await first.close();
    const database = (await loadDriver())(join(directory, "interlock.db"), { readOnly: false });
    database.exec("UPDATE trail SET value = replace(value, '\"ann\"', '\"eve\"')");
    database.exec("DELETE FROM document WHERE scope = 'acme/seal'");
    database.close();
    const later = await open();
    const verdict = await later.api.verifyTrail({ tenant: acme });
    expect(verdict).toMatchObject({ status: "broken", anchored: { state: "different" } });
    await later.close();
  });

  test("of a row on a Redis server whose seals were removed is found after a restart, with no setting for it", async () => {
    const directory = join(folder, "beside-redis");
    const overrides = {
      "store.kind": "redis",
      "store.redisUrls": redis.url,
      "store.prefix": "anchored",
    } as const;
    const open = () =>
      createControlPlane({
        overrides: { ...overrides, "store.dataDirectory": directory },
        ports: { log: silentLog },
        engine: "stopped",
      });
    const first = await open();
    for (const id of ["a", "b"])
      await first.api.saveWorkflow({ caller: { tenant: acme, actor: "ann" }, definition: workflow(id) });
    expect(await first.api.verifyTrail({ tenant: acme })).toMatchObject({ status: "intact" });
    await first.close();
    const [stream = ""] = await redis.command<string[]>("KEYS", "anchored:*trail:acme");
    const rows = await redis.command<Array<[string, string[]]>>("XRANGE", stream, "-", "+");
    await redis.command("DEL", stream, ...(await redis.command<string[]>("KEYS", "anchored:*acme:seal*")));
    for (const [id, fields] of rows)
      await redis.command("XADD", stream, id, ...fields.map((text) => text.replace("ann", "eve")));
    const later = await open();
    const verdict = await later.api.verifyTrail({ tenant: acme });
    expect(verdict).toMatchObject({ status: "broken", anchored: { sequence: 4, state: "different" } });
    await later.close();
  });

  test("of a row on a Redis server is found while the server runs, and so is a row that is gone", async () => {
    const options = { urls: [redis.url], mode: "standalone", prefix: "audited" } as const;
    const base = { clock: systemClock, log: silentLog, settings: defaultStoreSettings };
    const world = await openGatewayWorld({}, await openRedisStore({ ...base, ...options }));
    await saveWorkflows(world, 5);
    const intact = await verify(world);
    expect(intact).toMatchObject({ status: "intact" });
    const [stream = ""] = await redis.command<string[]>("KEYS", "audited:*trail:acme");
    // A stream's rows cannot be changed: who wants to writes the whole stream again.
    const rows = await redis.command<Array<[string, string[]]>>("XRANGE", stream, "-", "+");
    await redis.command("DEL", stream);
    for (const [id, fields] of rows) {
      const written = id === "0-3" ? fields.map((text) => text.replace("setup", "setuq")) : fields;
      await redis.command("XADD", stream, id, ...written);
    }
    expect(await verify(world)).toMatchObject({
      status: "broken",
      first_broken: { sequence: 3, why: "row_changed" },
    });
    await redis.command("XDEL", stream, "0-2");
    expect(await verify(world)).toMatchObject({
      status: "broken",
      first_broken: { sequence: 2, why: "row_missing" },
    });
    await world.close();
  });
});
