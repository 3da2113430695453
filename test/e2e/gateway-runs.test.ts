// Runs over HTTP beyond start and end: trying out, lists of items, reruns.
import { afterAll, beforeAll, expect, test } from "vitest";
import { createMemoryStore } from "../../src/adapters/memory-store.ts";
import { systemClock } from "../../src/adapters/system/system.ts";
import { admissionLock, type LockToken } from "../../src/domain/lock.ts";
import { defaultStoreSettings } from "../../src/ports/store.ts";
import {
  acme,
  type GatewayWorld,
  makeThings,
  openGatewayWorld,
  type Things,
} from "../support/gateway-world.ts";
import { readMetrics } from "../support/metrics-text.ts";

const store = createMemoryStore({ clock: systemClock, settings: defaultStoreSettings });
let world: GatewayWorld;
let things: Things;

beforeAll(async () => {
  world = await openGatewayWorld({}, store);
  things = await makeThings(world);
});
afterAll(() => world.close());

const operator = () => ({ key: world.acme.operator });

test("a dry run answers what would happen, on either path, and starts nothing", async () => {
  const before = await world.ask("GET", "/api/v1/workflow-runs", operator());
  const body = { input: { customer: "c-9" }, outputs: { one: { done: 1 } } };
  const played = await world.ask("POST", "/api/v1/workflows/simple/dry-run", { ...operator(), body });
  expect(played.status).toBe(200);
  expect(played.json).toMatchObject({
    dry_run: true,
    status: "succeeded",
    steps: [{ step_id: "one", type: "worker", topic: "work", status: "succeeded", output: { done: 1 } }],
  });
  const started = await world.ask("POST", "/api/v1/workflows/simple/runs?dry_run=true", {
    ...operator(),
    body: {},
  });
  expect(started.json).toMatchObject({ dry_run: true, status: "succeeded" });
  const after = await world.ask("GET", "/api/v1/workflow-runs", operator());
  expect(after.json).toEqual(before.json);
});

test("a run with a list is shown without its items, which are read page by page", async () => {
  const run = await world.ask("GET", `/api/v1/workflow-runs/${things.listRunId}`, operator());
  expect(run.json.steps).toMatchObject({
    each: {
      status: "waiting",
      waiting_for: "children",
      children: { total: 3, open: 3, succeeded: 0, failed: 0 },
    },
  });
  expect(Object.keys(run.json.steps as object)).toEqual(["each"]);
  const path = `/api/v1/workflow-runs/${things.listRunId}/steps/each/items`;
  const first = await world.ask("GET", `${path}?limit=2`, operator());
  const items = first.json.items as ReadonlyArray<Record<string, unknown>>;
  expect(items.map(({ step_id, status }) => [step_id, status])).toEqual([
    ["each[0]", "running"],
    ["each[1]", "running"],
  ]);
  const rest = await world.ask("GET", `${path}?limit=2&cursor=${String(first.json.next_cursor)}`, operator());
  expect(rest.json.items).toMatchObject([{ step_id: "each[2]" }]);
  expect(rest.json.next_cursor).toBeNull();
  const none = await world.ask("GET", `/api/v1/workflow-runs/${things.runId}/steps/one/items`, operator());
  expect([none.status, none.json.code]).toEqual([404, "step_not_found"]);
});

test("a rerun says first what it would do, then does it once per key", async () => {
  const path = `/api/v1/workflow-runs/${things.runId}/rerun`;
  const plan = await world.ask("POST", path, { ...operator(), body: { from_step: "one", dry_run: true } });
  expect(plan.json).toEqual({ dry_run: true, from_step: "one", kept: [], again: ["one"] });
  const request = { ...operator(), body: { from_step: "one" }, headers: { "idempotency-key": "again" } };
  const first = await world.ask("POST", path, request);
  expect(first.status).toBe(200);
  const second = await world.ask("POST", path, request);
  expect(second.json.run_id).toBe(first.json.run_id);
  expect(second.headers.get("idempotent-replayed")).toBe("true");
  const other = await world.ask("POST", path, { ...operator(), body: { from_step: "two" } });
  expect([other.status, other.json.code]).toEqual([409, "rerun_not_possible"]);
  expect(other.json.detail).toContain("no such step");
});

test("a client that goes away ends the wait of its start for the admission lock", async () => {
  const strategy = { key: world.platform, body: { admission_strategy: "lock" } };
  expect((await world.ask("PATCH", "/api/v1/tenants/acme", strategy)).status).toBe(200);
  const held = { tenant: acme, lock: admissionLock, token: "somebody-else-0000" as LockToken };
  await store.acquireLock({ ...held, instance: "elsewhere", ttlMs: 60_000 }, { deadlineMs: 1_000 });
  const counted = async (name: string, labels: Readonly<Record<string, string>>) => {
    const { samples } = readMetrics((await world.ask("GET", "/metrics", { key: world.platform })).text);
    const fits = (sample: (typeof samples)[number]) =>
      sample.name === name &&
      Object.entries(labels).every(([label, value]) => sample.labels[label] === value);
    return samples.filter(fits).reduce((sum, { value }) => sum + value, 0);
  };
  const gone = new AbortController();
  const path = "/api/v1/workflows/simple/runs";
  const waiting = world.ask("POST", path, { ...operator(), body: {}, signal: gone.signal });
  await expect
    .poll(() => counted("interlock_lock_busy_retries_total", { path: "admission" }))
    .toBeGreaterThan(0);
  gone.abort();
  await expect(waiting).rejects.toThrow();
  const outcome = (name: string) => counted("interlock_admission_decisions_total", { outcome: name });
  await expect.poll(() => outcome("cancelled")).toBe(1);
  expect(await outcome("gate_unavailable")).toBe(0);
});
