// Limits on running jobs across processes, on every real store: two control planes, one store, and never more jobs than places.
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import { createInProcessBus } from "../../src/adapters/in-process-bus.ts";
import { MemoryMetrics } from "../../src/adapters/memory-metrics.ts";
import { systemClock } from "../../src/adapters/system/system.ts";
import type { ClaimToken } from "../../src/domain/job.ts";
import type { TenantSettings } from "../../src/domain/tenant.ts";
import { type ControlPlane, createControlPlane, type RunId, type TenantId } from "../../src/index.ts";
import type { Bus, BusChannel } from "../../src/ports/bus.ts";
import { defaultStoreSettings, type Store } from "../../src/ports/store.ts";
import { silentLog } from "../support/silent-log.ts";
import { type StoreHost, startStoreHost } from "../support/stores.ts";

const call = { deadlineMs: 5_000 };

/** Buses of several processes: hints and results are shared, and announcements reach all others. */
function linkedBuses(amount: number): readonly Bus[] {
  const shared = createInProcessBus({ clock: systemClock, log: silentLog });
  const listeners: Array<{ owner: number; channel: BusChannel; hear(body: string): void }> = [];
  return Array.from({ length: amount }, (_, owner) => ({
    ...shared,
    announce(channel, body) {
      for (const each of listeners)
        if (each.owner !== owner && each.channel === channel) setImmediate(() => each.hear(body));
    },
    listen(channel, hear) {
      const listener = { owner, channel, hear };
      listeners.push(listener);
      return { stop: async () => void listeners.splice(listeners.indexOf(listener), 1) };
    },
    close: async () => {},
  }));
}

describe.each(["sqlite", "redis"] as const)("%s", (name) => {
  let host: StoreHost;
  let store: Store;
  let planes: ControlPlane[] = [];
  const metrics = new MemoryMetrics(100);

  beforeAll(async () => {
    host = await startStoreHost(name);
    store = await host.open(defaultStoreSettings);
  });
  afterEach(async () => {
    await Promise.all(planes.map((plane) => plane.close()));
    planes = [];
  });
  afterAll(() => host?.close());

  async function open(tenant: TenantId, settings: TenantSettings, buses: readonly Bus[]) {
    const request = { tenant, settings, expectedVersion: 0, changeId: "c", actor: "ann" };
    expect((await store.setTenant(request, call)).kind).toBe("saved");
    // Closing a plane closes its store, which others still use here.
    const shared = { ...store, close: async () => {} };
    for (const bus of buses)
      planes.push(await createControlPlane({ bus, ports: { store: shared, log: silentLog, metrics } }));
    return planes;
  }

  /** Workers in every process that count together. */
  function startCounting(tenant: TenantId, workMs: number) {
    const seen = { running: 0, most: 0, done: 0 };
    for (const [index, plane] of planes.entries())
      plane.startWorker({
        ...{ tenant, name: `w${index}`, topics: ["work"], concurrency: 20 },
        async handler() {
          seen.running += 1;
          seen.most = Math.max(seen.most, seen.running);
          await systemClock.sleep(workMs);
          seen.running -= 1;
          seen.done += 1;
          return {};
        },
      });
    return seen;
  }

  async function start(tenant: TenantId, plane: ControlPlane, amount: number): Promise<RunId> {
    const caller = { tenant, actor: "ann" };
    const steps = Object.fromEntries(
      Array.from({ length: amount }, (_, index) => [`s${index}`, { type: "worker", topic: "work" }]),
    );
    expect((await plane.api.saveWorkflow({ caller, definition: { id: `w${amount}`, steps } })).kind).toBe(
      "saved",
    );
    const answer = await plane.api.startWorkflow({ caller, workflow: `w${amount}`, input: {} });
    if (answer.kind !== "admitted") throw new Error(answer.kind);
    return answer.runId;
  }

  const untilDone = (seen: { readonly done: number }, amount: number) =>
    vi.waitFor(() => expect(seen.done).toBe(amount), { timeout: 15_000, interval: 10 });

  test("two processes with a limit of 3 and 60 jobs never run more than 3, and lose no time", async () => {
    const tenant = `acme-${name}` as TenantId;
    const [p, q] = await open(tenant, { topics: { work: { maxRunning: 3 } } }, linkedBuses(2));
    const seen = startCounting(tenant, 20);
    const before = metrics.total("claims_refused_total");
    const startedMs = performance.now();
    await Promise.all([start(tenant, p as ControlPlane, 30), start(tenant, q as ControlPlane, 30)]);
    await untilDone(seen, 60);
    expect(seen.most).toBe(3);
    // Twenty rounds of 20 ms. A second or two would mean that places were only found by trying again.
    expect(performance.now() - startedMs).toBeLessThan(6_000);
    // Hardly any for each of 60 jobs, beside the bursts that found the limit.
    expect(metrics.total("claims_refused_total") - before).toBeLessThan(60 + 2 * 64);
    const counted = await store.countJobs({ tenant, topics: ["work"], pools: ["default"] }, call);
    expect(counted).toMatchObject({ topics: [{ running: 0, waiting: 0 }], pools: [{ running: 0 }] });
  });

  test("places are found without any announcement, within a second or two", async () => {
    const tenant = `silent-${name}` as TenantId;
    const deaf = linkedBuses(2).map((bus) => ({ ...bus, announce: () => {} }));
    await open(tenant, { topics: { work: { maxRunning: 1 } } }, deaf);
    const seen = startCounting(tenant, 10);
    await start(tenant, planes[0] as ControlPlane, 6);
    await untilDone(seen, 6);
    expect(seen.most).toBe(1);
  });

  test("the place of a worker that died comes back after its lease", async () => {
    const tenant = `dead-${name}` as TenantId;
    const [p] = await open(tenant, { topics: { work: { maxRunning: 1 } } }, linkedBuses(2));
    await start(tenant, p as ControlPlane, 2);
    const [job] = await vi.waitFor(async () => {
      const listed = await store.listReadyJobs({ tenant, topic: "work", limit: 2 }, call);
      if (listed.kind !== "listed" || listed.jobs.length < 2) throw new Error("not yet");
      return listed.jobs;
    });
    if (job === undefined) throw new Error("no job");
    const terms = { token: "dead" as ClaimToken, worker: "dead", leaseMs: 1_000 };
    const claimed = await store.claimJobs({ tenant, claims: [{ jobId: job.jobId, terms }] }, call);
    expect(claimed).toMatchObject({ answers: [{ kind: "claimed" }] });
    const startedMs = performance.now();
    const seen = startCounting(tenant, 10);
    await vi.waitFor(() => expect(seen.done).toBeGreaterThan(0), { timeout: 10_000, interval: 10 });
    expect(performance.now() - startedMs).toBeGreaterThan(500);
    // What is left of the lease, the sweep, and the claim that is tried once a second, on a busy machine.
    expect(performance.now() - startedMs).toBeLessThan(5_000);
    await untilDone(seen, 2);
    expect(seen.most).toBe(1);
  });
});
