// The flows over a connection that loses replies, hangs and is cut: every start and end has one effect and one true answer.
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { bareStart } from "../../proof/simulation/bare-run.ts";
import { endBareRun } from "../../proof/simulation/end-bare-run.ts";
import { MemoryMetrics } from "../../src/adapters/memory-metrics.ts";
import { type RedisServer, startRedisServer } from "../../src/drills/servers/start-servers.ts";
import {
  type ControlPlane,
  createControlPlane,
  fingerprintOf,
  type LeaseTerms,
  parseTenantId,
  type TenantId,
  withLease,
} from "../../src/index.ts";
import { type FaultProxy, startFaultProxy } from "../support/fault-proxy.ts";
import { silentLog } from "../support/silent-log.ts";

const call = { deadlineMs: 5_000 };
const metrics = new MemoryMetrics(100);
let server: RedisServer;
let proxy: FaultProxy;
/** `shaky` reaches Redis through the proxy, `steady` directly. */
let shaky: ControlPlane;
let steady: ControlPlane;

beforeAll(async () => {
  server = await startRedisServer();
  proxy = await startFaultProxy(server.port);
  const open = (url: string) =>
    createControlPlane({
      overrides: { "store.kind": "redis", "store.redisUrls": url },
      ports: { log: silentLog, metrics },
    });
  shaky = await open(proxy.url);
  steady = await open(server.url);
});
afterEach(() => proxy.pass());
afterAll(async () => {
  await shaky?.close();
  await steady?.close();
  await proxy?.close();
  await server?.stop();
});

function requestFor(tenant: TenantId, text: string) {
  const fingerprint = fingerprintOf({ method: "POST", path: "/w", query: {}, body: { text } });
  return {
    ...bareStart,
    tenant,
    actor: "test",
    key: { text, fingerprint },
    change: { ...bareStart.change, records: [{ key: "input/run", body: text }] },
  };
}

async function activeCount(tenant: TenantId): Promise<number> {
  const answer = await steady.ports.store.countActive({ tenant }, call);
  return answer.kind === "counted" ? answer.active : -1;
}

/** Waits until the shaky plane answers again, by asking it. */
async function recovered(tenant: TenantId): Promise<void> {
  await expect
    .poll(async () => (await shaky.ports.store.getTenant({ tenant }, { deadlineMs: 500 })).kind, {
      timeout: 10_000,
    })
    .toBe("tenant");
}

test("a start whose reply is lost is asked again and admitted once", async () => {
  const tenant = parseTenantId("lost-admit") as TenantId;
  const swallowed = proxy.swallowNextReply((bytes) => bytes.includes("lost-admit-input"));
  const answer = await shaky.startRun(requestFor(tenant, "lost-admit-input"));
  await swallowed;
  expect(answer.kind).toBe("admitted");
  expect(await activeCount(tenant)).toBe(1);
  const replay = await steady.startRun(requestFor(tenant, "lost-admit-input"));
  expect(replay).toMatchObject({ kind: "replayed", runId: (answer as { runId: string }).runId });
  expect(metrics.total("unknown_outcomes_total", { operation: "admit" })).toBeGreaterThan(0);
});

test("a start under the lock survives a lost reply at each of its steps", async () => {
  const plane = await createControlPlane({
    overrides: { "store.kind": "redis", "store.redisUrls": proxy.url, "admission.strategy": "lock" },
    ports: { log: silentLog, metrics },
  });
  try {
    // What stands in the bytes of each step's request; tokens and run ids are not known beforehand.
    const steps = ["wf:run:admission", "wf:run:idempotency", "input/run", "grant:admission"];
    for (const [index, marker] of steps.entries()) {
      const tenant = parseTenantId(`lost-step-${index}`) as TenantId;
      const swallowed = proxy.swallowNextReply(
        (bytes) => bytes.includes(marker) && bytes.includes(`lost-step-${index}`),
      );
      const answer = await plane.startRun(requestFor(tenant, `key-${index}`));
      await swallowed;
      expect([index, answer.kind]).toEqual([index, "admitted"]);
      expect(await activeCount(tenant)).toBe(1);
      const lock = { namespace: "admission", name: "" } as const;
      const inspected = await steady.ports.store.inspectLock({ tenant, lock }, call);
      expect([index, inspected.kind]).toEqual([index, "free"]);
    }
  } finally {
    await plane.close();
  }
});

test("an end of a run whose reply is lost is asked again and happens once", async () => {
  const tenant = parseTenantId("lost-end") as TenantId;
  const started = await steady.startRun(requestFor(tenant, "k"));
  if (started.kind !== "admitted") throw new Error(started.kind);
  const swallowed = proxy.swallowNextReply((bytes) => bytes.includes("lost-end-commit"));
  const { runId } = started;
  const request = { tenant, runId, status: "succeeded", risk: "standard" } as const;
  const ended = await endBareRun(shaky.ports, shaky.config, { ...request, commitId: "lost-end-commit" });
  await swallowed;
  expect(ended).toEqual({ kind: "ended", status: "succeeded" });
  const rows = await steady.ports.store.readEvents({ tenant, after: 0, limit: 10 }, call);
  expect(rows.kind === "events" && rows.events.filter(({ type }) => type === "run_ended").length).toBe(1);
  expect(await activeCount(tenant)).toBe(0);
});

test("while Redis hangs a start is answered in time as unknown, and its key finds out later what happened", async () => {
  const tenant = parseTenantId("hung") as TenantId;
  server.pause();
  const startedMs = performance.now();
  const answer = await shaky.startRun(requestFor(tenant, "k"));
  const tookMs = performance.now() - startedMs;
  server.resume();
  expect(["outcome_unknown", "concurrency_gate_unavailable"]).toContain(answer.kind);
  expect(tookMs).toBeLessThan(5_000);
  await recovered(tenant);
  const later = await shaky.startRun(requestFor(tenant, "k"));
  expect(["admitted", "replayed"]).toContain(later.kind);
  expect(await activeCount(tenant)).toBe(1);
});

test("while the connection is cut nothing is admitted, and starts work again by themselves", async () => {
  const tenant = parseTenantId("cut") as TenantId;
  proxy.cut();
  const refused = await shaky.startRun(requestFor(tenant, "k"));
  expect(["outcome_unknown", "concurrency_gate_unavailable"]).toContain(refused.kind);
  expect(await activeCount(tenant)).toBe(0);
  proxy.pass();
  await recovered(tenant);
  expect((await shaky.startRun(requestFor(tenant, "k"))).kind).toBe("admitted");
});

const drillTerms: LeaseTerms = {
  ttlMs: 2_000,
  waitMs: 5_000,
  wait: "jitter",
  poll: { kind: "around", baseMs: 50, jitterFraction: 0.3 },
  callTimeoutMs: 250,
  releaseTimeoutMs: 500,
  rule: { policy: "fence", failuresMax: 3 },
  renewEveryMs: 500,
};

test("renewals fail, the ttl ends, another owner takes over, and the stale release is refused (seed 003)", async () => {
  const tenant = parseTenantId("drill") as TenantId;
  const target = { tenant, lock: { namespace: "job", name: "drill" } } as const;
  const abandonedBefore = metrics.total("lock_abandoned_total", { lock: "job" });
  const outcome = await withLease(shaky.ports, target, drillTerms, async (first) => {
    proxy.blackhole();
    const heldMs = performance.now();
    // Fenced while the lock is still there: the work stops before anybody else can begin.
    await expect.poll(() => first.signal.aborted, { interval: 10 }).toBe(true);
    const left = await steady.ports.store.inspectLock(target, call);
    expect(left).toMatchObject({ kind: "held", fence: first.fence });
    expect(performance.now() - heldMs).toBeLessThan(drillTerms.ttlMs);
    const taken = await withLease(steady.ports, target, drillTerms, async (second) => {
      expect(second.fence).toBeGreaterThan(first.fence);
      proxy.pass();
      await recovered(tenant);
      const stale = await shaky.ports.store.releaseLock({ ...target, token: first.token }, call);
      expect(stale.kind).toBe("not_owned");
      const renewed = await shaky.ports.store.renewLock(
        { ...target, token: first.token, ttlMs: 60_000 },
        call,
      );
      expect(renewed).toMatchObject({ kind: "not_owned", superseded: true });
      second.check();
      const held = await steady.ports.store.inspectLock(target, call);
      expect(held).toMatchObject({ kind: "held", fence: second.fence });
    });
    expect(taken.kind).toBe("finished");
    first.check();
  });
  expect(outcome).toMatchObject({ kind: "abandoned" });
  expect(metrics.total("lock_abandoned_total", { lock: "job" })).toBe(abandonedBefore + 1);
});

test("a tenant at its limit under a flood does not change another tenant's answers (INV-5)", async () => {
  const [quiet, flooded] = [parseTenantId("quiet") as TenantId, parseTenantId("flooded") as TenantId];
  const settings = { maxConcurrentRuns: 1 };
  await steady.ports.store.setTenant(
    { tenant: flooded, settings, expectedVersion: 0, changeId: "c", actor: "t" },
    call,
  );
  let flooding = true;
  const flood = Promise.all(
    Array.from({ length: 50 }, async () => {
      const answers = new Set<string>();
      while (flooding)
        answers.add((await steady.startRun({ ...bareStart, tenant: flooded, actor: "t" })).kind);
      return answers;
    }),
  );
  const waits: number[] = [];
  for (let index = 0; index < 100; index += 1) {
    const startedMs = performance.now();
    const answer = await shaky.startRun(requestFor(quiet, `quiet-${index}`));
    waits.push(performance.now() - startedMs);
    expect(answer.kind).toBe("admitted");
  }
  flooding = false;
  const seen = new Set((await flood).flatMap((answers) => [...answers]));
  expect([...seen].sort()).toEqual(["admitted", "max_concurrent_runs_reached"]);
  expect(await activeCount(flooded)).toBe(1);
  // No lock and no queue is shared between tenants: far below any wait budget.
  expect(waits.sort((left, right) => left - right)[98]).toBeLessThan(1_000);
});
