// Two tenants over every route and verb: neither can see, find or change anything of the other.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { isPlatformRole, keyRoles } from "../../src/domain/api-key.ts";
import { stateOf } from "../fuzz/unchanged.ts";
import { openEvents } from "../support/event-client.ts";
import { canary, type ForeignThings, makeForeignThings } from "../support/foreign-things.ts";
import { examples, expectProblem, keyOf, type Row, rows } from "../support/gateway-requests.ts";
import {
  acme,
  type GatewayWorld,
  globex,
  makeKey,
  makeThings,
  openGatewayWorld,
  type Received,
  type TestKey,
} from "../support/gateway-world.ts";

/** acme has everything; globex has what its own requests have made, and all of acme's ids. */
let world: GatewayWorld;
let things: ForeignThings;
let revoked: TestKey;
/** acme's places in its own lists. */
const cursors = new Map<string, string>();

beforeAll(async () => {
  world = await openGatewayWorld({ "gateway.failedAuthenticationsPerMinute": 100_000 });
  things = await makeForeignThings(world);
  revoked = await makeKey(world.plane, globex, "admin");
  await world.plane.api.revokeKey({ by: "setup", tenant: globex, keyId: revoked.key.keyId });
  for (const row of paged) {
    const path = pathOf(row);
    const { json } = await world.ask("GET", `${path}?limit=1`, { key: world.acme.admin });
    if (typeof json.next_cursor === "string") cursors.set(row.operation, json.next_cursor);
  }
});

afterAll(() => world.close());

/** Those last that make something of the caller's own under the other's name. */
const ofTenants = rows
  .filter(({ access }) => typeof access !== "string" && access.includes("admin"))
  .sort((left, right) => Number(left.method === "PUT") - Number(right.method === "PUT"));
const paged = ofTenants.filter(
  ({ query, method }) => method === "GET" && query !== undefined && "cursor" in query.shape,
);
const tenantRoles = ["admin", "operator", "viewer", "worker"] as const;

/** The path with acme's things in it. */
function pathOf(row: Row): string {
  const { params = {} } = examples[row.operation](things);
  const named: Readonly<Record<string, string>> = {
    simple: things.workflow,
    batch: things.pool,
    slow: things.topic,
    more: things.topic,
    "bound-key": things.idempotencyKey,
  };
  return row.path.replaceAll(/\{([a-z_]+)\}/g, (_all, name: string) => {
    const example = params[name] ?? "";
    return encodeURIComponent(named[example] ?? example);
  });
}

/** What is asked for by a name in the body, of which every tenant has its own. */
const named: Readonly<Record<string, () => { readonly body?: object; readonly query?: string }>> = {
  listLocks: () => ({ query: `resource=${encodeURIComponent(things.resource)}` }),
  renewLock: () => ({ body: { resource: things.resource, token: things.lockToken } }),
  releaseLock: () => ({ body: { resource: things.resource, token: things.lockToken } }),
  breakLock: () => ({
    body: { namespace: "public", name: things.resource, fence: things.lockFence, reason: "mine now" },
  }),
  listReadyJobs: () => ({ query: `topic=${things.topic}` }),
  pollJobs: () => ({ body: { worker_id: "w", topics: [things.topic], poll_id: "p", wait_ms: 0 } }),
  listRuns: () => ({ query: `workflow_id=${things.workflow}` }),
  purgeDeadLetters: () => ({ body: {} }),
  acquireLock: () => ({ body: { resource: "invoice/of-globex", token: "a-token-of-globex-itself" } }),
  createKey: () => ({ body: { role: "viewer", name: "new" } }),
};

type Asking = { readonly key?: TestKey | undefined; readonly query?: string };

async function askFor(row: Row, { key, query }: Asking): Promise<{ answer: Received; sent: string }> {
  const more = named[row.operation]?.() ?? {};
  const body = more.body ?? examples[row.operation](things).body;
  const asked = query ?? more.query;
  const path = `${pathOf(row)}${asked === undefined ? "" : `?${asked}`}`;
  const answer = await world.ask(row.method, path, {
    ...(key === undefined ? {} : { key }),
    ...(body === undefined ? {} : { body }),
  });
  return { answer, sent: path + JSON.stringify(body ?? {}) + decodeURIComponent(path) };
}

/** Nothing of acme's but what the caller has said itself. */
function expectNothingForeign({ answer, sent }: { answer: Received; sent: string }): void {
  const told = `${answer.text}${JSON.stringify([...answer.headers])}`;
  const leaked = things.private.filter((word) => told.includes(word) && !sent.includes(word));
  expect(leaked, told).toEqual([]);
  expect(told).not.toMatch(/"acme"/);
}

/** By its path, or by what its body names; a PUT makes something of the caller's own. */
const hidden: Readonly<Record<string, string>> = { breakLock: "lock_not_found", listLocks: "lock_not_found" };

function expectedOf(row: Row): { readonly status: number; readonly code?: string } {
  const code = hidden[row.operation];
  if (code !== undefined) return { status: 404, code };
  if (row.operation === "renewLock" || row.operation === "releaseLock")
    return { status: 409, code: "lock_not_owned" };
  if (row.path.includes("{") && row.method !== "PUT") return { status: 404 };
  return { status: Number(Object.keys(row.replies)[0]) };
}

describe("a key of another tenant", () => {
  test.each(ofTenants)("finds nothing and changes nothing in $operation, whatever its role", async (row) => {
    const before = await stateOf(world, [acme]);
    for (const role of tenantRoles) {
      const asked = await askFor(row, { key: world.globex[role] });
      expectNothingForeign(asked);
      if (!row.access.includes(role)) {
        expectProblem(row, asked.answer, "forbidden");
        continue;
      }
      const { status, code } = expectedOf(row);
      expect(asked.answer.status, `${row.operation} as ${role}: ${asked.answer.text}`).toBe(status);
      if (code !== undefined) expect(asked.answer.json.code).toBe(code);
    }
    for (const key of [undefined, revoked]) {
      const asked = await askFor(row, { key });
      expectNothingForeign(asked);
      expectProblem(row, asked.answer, "unauthenticated");
    }
    expect(await stateOf(world, [acme])).toBe(before);
  });

  test.each(paged)("cannot use the other's place in the list of $operation", async (row) => {
    const cursor = cursors.get(row.operation);
    // Lists with one page have no place to give away; then one is made as the server makes them.
    const query = `cursor=${encodeURIComponent(cursor ?? madeUp(row))}`;
    const asked = await askFor(row, { key: world.globex.admin, query });
    expectNothingForeign(asked);
    if (row.path.includes("{")) expect([400, 404]).toContain(asked.answer.status);
    else expectProblem(row, asked.answer, "invalid_request");
  });

  function madeUp(row: Row): string {
    return Buffer.from(JSON.stringify([1, row.operation, "acme", "", "0"])).toString("base64url");
  }

  test("hears nothing of the other's work in its own stream, while both are at work", async () => {
    await makeThings({ ...world, acme: world.globex });
    const streams = await Promise.all(
      (["viewer", "operator", "admin"] as const).map((role) =>
        openEvents(`${world.url}/api/v1/events/stream?from=start`, { key: world.globex[role].text }),
      ),
    );
    const start = (key: TestKey, workflow: string) =>
      world.ask("POST", `/api/v1/workflows/${workflow}/runs`, { key, body: { customer: `${canary} again` } });
    expect((await start(world.acme.operator, things.workflow)).status).toBe(200);
    const own = await start(world.globex.operator, "simple");
    expect(own.status).toBe(200);
    for (const stream of streams) {
      await stream.until("its own run is told", (events) =>
        events.some(({ data }) => data.run_id === own.json.run_id),
      );
      stream.close();
      // The name of the pool it has typed itself, in an earlier test: it stands in its own trail.
      const told = stream.text().replaceAll(things.pool, "");
      expect(things.private.filter((word) => told.includes(word))).toEqual([]);
    }
    const foreign = `${world.url}/api/v1/workflow-runs/${things.runId}/events`;
    const refused = await openEvents(foreign, { key: world.globex.admin.text, lastEventId: "0" });
    expect([refused.status, refused.text()]).toEqual([404, expect.not.stringContaining(canary)]);
  });

  test("reports and heartbeats for the other's job are lost and refused, with its own token", async () => {
    const before = await stateOf(world, [acme]);
    const claim = { job_id: things.jobId, claim_token: things.claimToken };
    const beat = await world.ask("POST", "/api/v1/jobs/heartbeat", {
      key: world.globex.worker,
      body: { worker_id: "w", jobs: [claim] },
    });
    expect(beat.json.jobs).toEqual([{ job_id: things.jobId, kind: "lost" }]);
    const report = await world.ask("POST", "/api/v1/jobs/results", {
      key: world.globex.worker,
      body: { worker_id: "w", results: [{ ...claim, status: "succeeded", output: 1 }] },
    });
    expect(report.json.results).toMatchObject([{ job_id: things.jobId, kind: "refused" }]);
    expect(await stateOf(world, [acme])).toBe(before);
  });

  test("of the same idempotency key starts a run of its own", async () => {
    const body = { customer: `${canary} input` };
    const sent = { key: world.globex.operator, body, headers: { "idempotency-key": things.idempotencyKey } };
    const started = await world.ask("POST", "/api/v1/workflows/simple/runs", sent);
    expect([started.status, started.json.run_id === things.runId]).toEqual([200, false]);
  });
});

describe("the platform's boundary", () => {
  const ofPlatform = rows.filter(({ access }) => typeof access !== "string" && access.includes("platform"));
  const onlyOfTenants = ofTenants.filter(({ access }) => !access.includes("platform"));

  test.each(onlyOfTenants)("keeps platform keys out of $operation", async (row) => {
    const before = await stateOf(world, [acme]);
    const asked = await askFor(row, { key: world.platform });
    expectProblem(row, asked.answer, "forbidden");
    expectNothingForeign(asked);
    expect(await stateOf(world, [acme])).toBe(before);
  });

  test.each(ofPlatform)(
    "shows and gives tenants' keys nothing of the platform's in $operation",
    async (row) => {
      const before = await stateOf(world, [acme]);
      for (const role of keyRoles.filter((each) => !isPlatformRole(each))) {
        const { answer } = await askFor(row, { key: keyOf(role, { ...world, acme: world.globex }) });
        // Who changed a tenant stands in its trail, also when that was the platform.
        const told = answer.text.replaceAll(/"actor":"[^"]*"/g, "");
        expect(told).not.toContain(world.platform.key.keyId);
        if (!row.access.includes(role)) expectProblem(row, answer, "forbidden");
      }
      expect(await stateOf(world, [acme])).toBe(before);
    },
  );

  test("lets no admin make a key of the platform's or another tenant's, nor revoke one", async () => {
    const before = await stateOf(world, [acme]);
    const create = (body: object) => world.ask("POST", "/api/v1/keys", { key: world.globex.admin, body });
    for (const role of ["platform", "metrics"]) {
      expectProblem(undefined, await create({ role, name: "x" }), "forbidden");
    }
    for (const tenant of ["platform", "acme"]) {
      expectProblem(undefined, await create({ role: "admin", name: "x", tenant }), "tenant_mismatch");
    }
    for (const id of [world.platform.key.keyId, world.acme.admin.key.keyId]) {
      const path = `/api/v1/keys/${id}`;
      expectProblem(
        undefined,
        await world.ask("DELETE", path, { key: world.globex.admin }),
        "api_key_not_found",
      );
      const named = `${path}?tenant=${id.split(".")[0]}`;
      expectProblem(
        undefined,
        await world.ask("DELETE", named, { key: world.globex.admin }),
        "tenant_mismatch",
      );
    }
    expect(await stateOf(world, [acme])).toBe(before);
    expect((await world.ask("GET", "/api/v1/status", { key: world.platform })).status).toBe(200);
  });
});
