// Gates and queues over HTTP: a start that waits, what is shown of it, its move, and the settings that it depends on.
import { afterAll, beforeAll, expect, test } from "vitest";
import { createClient, worker } from "../../src/sdk/index.ts";
import { type GatewayWorld, openGatewayWorld } from "../support/gateway-world.ts";

let world: GatewayWorld;
beforeAll(async () => {
  world = await openGatewayWorld();
});
afterAll(() => world.close());

type More = { readonly body?: unknown; readonly headers?: Readonly<Record<string, string>> };
const admin = (method: string, path: string, more: More = {}) =>
  world.ask(method, `/api/v1/${path}`, { key: world.acme.admin, ...more });
const platform = (method: string, path: string, body: unknown) =>
  world.ask(method, `/api/v1/${path}`, { key: world.platform, body });

async function save(id: string, header: object): Promise<void> {
  const body = { id, ...header, steps: { one: { topic: id } } };
  const saved = await admin("POST", "workflows", { body });
  expect(saved.status, saved.text).toBe(201);
}

const start = (
  id: string,
  input: object = {},
  more: Omit<More, "body"> & { readonly query?: string } = {},
) => {
  const { query = "", ...headers } = more;
  return admin("POST", `workflows/${id}/runs${query}`, { body: input, ...headers });
};

/** Ends the run that has the only job of the topic. */
async function work(topic: string): Promise<void> {
  const body = { worker_id: "w", topics: [topic], poll_id: crypto.randomUUID(), wait_ms: 5_000 };
  const { json } = await world.ask("POST", "/api/v1/jobs/poll", { key: world.acme.worker, body });
  const [job] = json.jobs as ReadonlyArray<{ readonly job_id: string; readonly claim_token: string }>;
  const results = [{ job_id: job?.job_id, claim_token: job?.claim_token, status: "succeeded", output: {} }];
  await world.ask("POST", "/api/v1/jobs/results", {
    key: world.acme.worker,
    body: { worker_id: "w", results },
  });
}

test("a start that has to wait is 202 with its place, is shown everywhere, and begins by itself", async () => {
  await save("one-by-one", {
    concurrency: [{ key: "${input.customer}", max: 1, at_limit: "queue" }],
    priority: "${has(input.vip) ? 8 : 5}",
    queue: { deadline_sec: 600 },
  });
  const first = await start("one-by-one", { customer: "c1" });
  expect([first.status, first.json.status]).toEqual([200, "pending"]);
  const headers = { "idempotency-key": "ticket-2" };
  const second = await start("one-by-one", { customer: "c1" }, { headers });
  expect([second.status, second.json]).toEqual([
    202,
    {
      run_id: expect.any(String),
      ...{ status: "queued", gate: expect.stringMatching(/^by-key\.one-by-one\./), position: 1 },
      deadline_at: expect.any(String),
    },
  ]);
  expect(second.headers.get("location")).toBe(`/api/v1/workflow-runs/${second.json.run_id}`);
  const again = await start("one-by-one", { customer: "c1" }, { headers });
  expect([again.status, again.json, again.headers.get("idempotent-replayed")]).toEqual([
    200,
    { run_id: second.json.run_id, status: "queued" },
    "true",
  ]);
  const vip = await start("one-by-one", { customer: "c1", vip: true });

  const gate = String(second.json.gate);
  const listed = await admin("GET", "queues");
  expect(listed.json).toMatchObject({ items: [{ gate, limit: 1, active: 1, waiting: 2 }], queued: 2 });
  const shown = await admin("GET", `gates/${gate}`);
  expect(shown.json).toMatchObject({
    holders: [{ run_id: first.json.run_id }],
    queue: [
      { run_id: vip.json.run_id },
      { run_id: second.json.run_id, priority: 5, queue: { gate, level: 5 } },
    ],
  });
  const run = await admin("GET", `workflow-runs/${second.json.run_id}`);
  expect(run.json).toMatchObject({
    status: "queued",
    priority: 5,
    queue: { gate, position: 2 },
    open_steps: 0,
  });
  const queued = await admin("GET", "workflow-runs?status=queued");
  expect((queued.json.items as object[]).length).toBe(2);
  const why = await admin("GET", `workflow-runs/${second.json.run_id}/why`);
  expect(why.json.waiting_for).toMatchObject([
    { kind: "queued", position: 2, ahead: [{ run_id: vip.json.run_id }] },
  ]);

  // A repeat of the same move is one: the events below have one row.
  for (const move_id of ["move-1", "move-1"]) {
    const body = { to: "head", move_id };
    const moved = await admin("POST", `workflow-runs/${second.json.run_id}/queue`, { body });
    expect(moved.status).toBe(204);
  }
  await work("one-by-one");
  const client = createClient({ url: world.url, apiKey: world.acme.admin.text });
  for await (const { data } of runEvents(client, String(second.json.run_id)))
    if (data.type === "run_started") break;
  const begun = await admin("POST", `workflow-runs/${second.json.run_id}/queue`, { body: { to: "head" } });
  expect([begun.status, begun.json.code]).toEqual([409, "run_not_queued"]);
  const waiting = client.runs.wait(String(vip.json.run_id), { timeoutMs: 10_000 });
  await work("one-by-one");
  await work("one-by-one");
  expect((await waiting).status).toBe("succeeded");
  const events = await admin("GET", "events?from=start&limit=500");
  const types = (events.json.items as ReadonlyArray<{ type: string; run_id?: string }>)
    .filter(({ run_id }) => run_id === second.json.run_id)
    .map(({ type }) => type);
  expect(types.slice(0, 3)).toEqual(["run_queued", "run_moved", "run_admitted"]);
  const audit = await admin("GET", "audit?limit=500");
  expect(JSON.stringify(audit.json)).toContain("run_moved");
});

async function* runEvents(client: ReturnType<typeof createClient>, run: string) {
  for await (const followed of client.events.follow({ run })) if (followed.kind === "event") yield followed;
}

test("what is refused names its place, its gate and its holders", async () => {
  await save("keyed", { concurrency: [{ key: "${input.customer}", max: 1 }] });
  const without = await start("keyed");
  expect([without.status, without.json.code, without.json.problems]).toEqual([
    422,
    "start_expression_failed",
    [{ path: "concurrency[0].key", message: expect.any(String) }],
  ]);
  const first = await start("keyed", { customer: 7 });
  const second = await start("keyed", { customer: 7 });
  expect([second.status, second.json]).toMatchObject([
    429,
    { code: "max_concurrent_runs_reached", limit: 1, active: 1, runs: [{ run_id: first.json.run_id }] },
  ]);
  expect(String(second.json.gate)).toMatch(/^by-key\.keyed\./);
  expect(second.headers.get("retry-after")).toMatch(/^\d+$/);
  expect(second.headers.get("ratelimit")).toMatch(/^"by-key\.keyed\.[^"]+";r=0;t=\d+$/);
  const bad = await start("keyed", { customer: 8 }, { query: "?priority=10" });
  expect([bad.status, bad.json.code]).toEqual([400, "invalid_request"]);

  await save("short", { concurrency: [{ max: 1, at_limit: "queue" }], queue: { max: 1 } });
  for (const status of [200, 202]) expect((await start("short")).status).toBe(status);
  const full = await start("short");
  expect([full.status, full.json]).toMatchObject([
    429,
    { code: "queue_full", limit: 1, gate: "by-workflow.short", retryable: true },
  ]);
});

test("the gates that workflows share are settings of the tenant, changed by name", async () => {
  const body = {
    id: "crm",
    concurrency: [{ name: "crm", at_limit: "queue" }],
    steps: { one: { topic: "crm" } },
  };
  const refused = await admin("POST", "workflows", { body });
  expect([refused.status, refused.json.code]).toEqual([400, "workflow_invalid"]);
  expect(JSON.stringify(refused.json.problems)).toContain("--gate crm=10");
  await platform("PATCH", "tenants/acme", {
    gates: { crm: { max: 1 }, mail: { max: 5 } },
    at_limit: "queue",
  });
  const changed = await platform("PATCH", "tenants/acme", { gates: { mail: null } });
  expect(changed.json).toMatchObject({ gates: { crm: { max: 1 } }, at_limit: "queue" });
  expect((await admin("POST", "workflows", { body })).status).toBe(201);
  for (const status of [200, 202]) expect((await start("crm")).status).toBe(status);
  const bad = await platform("PATCH", "tenants/acme", { gates: { crm: { max: -1 } } });
  expect(bad.status).toBe(400);
  const unset = await platform("PATCH", "tenants/acme", { gates: null, at_limit: null });
  expect(unset.json).not.toHaveProperty("gates");
  expect(unset.json).not.toHaveProperty("at_limit");
});

test("a run has at most the priority of the key that starts it, and a key makes none that may do more", async () => {
  await save("ranked", { concurrency: [{ max: 1, at_limit: "queue" }] });
  await start("ranked");
  const made = await admin("POST", "keys", { body: { role: "admin", name: "batch", max_priority: 3 } });
  expect(made.json.max_priority).toBe(3);
  const headers = { authorization: `Bearer ${made.json.key}` };
  const answer = await fetch(`${world.url}/api/v1/workflows/ranked/runs?priority=9`, {
    method: "POST",
    headers: { ...headers, "content-type": "application/json" },
    body: "{}",
  });
  const { run_id } = (await answer.json()) as { run_id: string };
  expect((await admin("GET", `workflow-runs/${run_id}`)).json.priority).toBe(3);
  const child = await fetch(`${world.url}/api/v1/keys`, {
    method: "POST",
    headers: { ...headers, "content-type": "application/json" },
    body: JSON.stringify({ role: "operator", name: "its child", max_priority: 9 }),
  });
  expect(((await child.json()) as { max_priority: number }).max_priority).toBe(3);
});

test("a dry run says which gates the run would pass, in the order of its places", async () => {
  await save("played", {
    concurrency: [{ max: 4 }, { key: "${input.customer}", max: 1, at_limit: "queue" }],
  });
  const played = await admin("POST", "workflows/played/dry-run", { body: { input: { customer: "c" } } });
  expect(played.json).toMatchObject({
    gates: [
      { gate: expect.stringMatching(/^by-key\.played\./), at_limit: "queue" },
      { gate: "by-workflow.played", at_limit: "reject" },
      { gate: "tenant", at_limit: "reject" },
    ],
    priority: 5,
  });
});

test("the groups of the SDK list, show and move", async () => {
  await save("grouped", { concurrency: [{ max: 1, at_limit: "queue" }] });
  const client = createClient({ url: world.url, apiKey: world.acme.admin.text });
  await client.runs.start("grouped", {});
  const waiting = await client.runs.start("grouped", {}, { priority: 2 });
  expect(waiting).toMatchObject({
    status: "queued",
    gate: "by-workflow.grouped",
    position: 1,
    replayed: false,
  });
  const gates = await client.queues.list().take(50);
  expect(gates.map(({ gate }) => gate)).toContain("by-workflow.grouped");
  await client.queues.move(waiting.run_id, 7);
  const shown = await client.queues.show("by-workflow.grouped", { limit: 1 });
  expect(shown.queue).toMatchObject([{ run_id: waiting.run_id, priority: 2, queue: { level: 7 } }]);
});

test("two hundred starts at a limit of ten all run once, ten at a time and fairly, and nothing waits at the end", async () => {
  await save("crowd", {
    concurrency: [{ max: 10, at_limit: "queue" }],
    fairness: { key: "${input.customer}" },
  });
  const client = createClient({ url: world.url, apiKey: world.acme.admin.text });
  const seen = { running: 0, most: 0, done: [] as string[] };
  // One customer sends 155 of them, and nine others 5 each after that.
  const customers = [
    ...Array<string>(155).fill("large"),
    ...Array.from({ length: 45 }, (_, n) => `c${n % 9}`),
  ];
  const runs = [];
  for (let first = 0; first < customers.length; first += 20) {
    const some = customers.slice(first, first + 20);
    runs.push(...(await Promise.all(some.map((customer) => client.runs.start("crowd", { customer })))));
  }
  expect(runs.some(({ status }) => status === "queued")).toBe(true);
  const crew = worker({
    url: world.url,
    apiKey: world.acme.worker.text,
    concurrency: 50,
    topics: {
      crowd: async ({ input }) => {
        seen.running += 1;
        seen.most = Math.max(seen.most, seen.running);
        // Long enough for others to begin meanwhile, if any could.
        await new Promise((resolve) => setTimeout(resolve, 5));
        seen.running -= 1;
        seen.done.push((input as { customer: string }).customer);
      },
    },
  });
  // One after the other: two hundred streams at once would be most of the load.
  for (const { run_id } of runs) await client.runs.wait(run_id, { timeoutMs: 60_000 });
  expect(seen.done.toSorted()).toEqual(customers.toSorted());
  expect(seen.most).toBe(10);
  // Ten begin at once, all of the large one; then ten customers take turns, and nine of them have five runs each.
  expect(seen.done.findLastIndex((customer) => customer !== "large")).toBeLessThan(80);
  const gates = await client.queues.list().take(50);
  expect(gates.map(({ gate }) => gate)).not.toContain("by-workflow.crowd");
  await crew.stop();
}, 90_000);
