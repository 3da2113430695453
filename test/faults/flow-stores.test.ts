// Whole flows on every real store: two hundred results of one run at once, and runs that outlive the process that began them.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { MemoryMetrics } from "../../src/adapters/memory-metrics.ts";
import type { Config } from "../../src/config.ts";
import type { ClaimedJob } from "../../src/control/jobs/offers.ts";
import type { LockToken } from "../../src/domain/lock.ts";
import { type ControlPlane, createControlPlane, type RunId, type TenantId } from "../../src/index.ts";
import { defaultStoreSettings, type Store } from "../../src/ports/store.ts";
import { silentLog } from "../support/silent-log.ts";
import { type StoreHost, startStoreHost } from "../support/stores.ts";

const amount = 200;
const wide = Object.fromEntries(
  Array.from({ length: amount }, (_, index) => [`s${index}`, { type: "worker", topic: "work" }]),
);

describe.each(["memory", "sqlite", "redis"] as const)("%s", (name) => {
  let host: StoreHost;
  let store: Store;
  const metrics = new MemoryMetrics(100);
  const planes: ControlPlane[] = [];

  async function open(overrides: Partial<Config> = {}): Promise<ControlPlane> {
    // Closing a plane closes its store, which others still use here.
    const shared = { ...store, close: async () => {} };
    const plane = await createControlPlane({ overrides, ports: { store: shared, log: silentLog, metrics } });
    planes.push(plane);
    return plane;
  }

  beforeAll(async () => {
    host = await startStoreHost(name);
    store = await host.open(defaultStoreSettings);
  });
  afterAll(async () => {
    await Promise.all(planes.map((plane) => plane.close()));
    await host?.close();
  });

  async function started(plane: ControlPlane, tenant: TenantId, id: string, steps: object): Promise<RunId> {
    const caller = { tenant, actor: "ann" };
    expect((await plane.api.saveWorkflow({ caller, definition: { id, steps } as never })).kind).toBe("saved");
    const answer = await plane.api.startWorkflow({ caller, workflow: id, input: {} });
    if (answer.kind !== "admitted") throw new Error(answer.kind);
    return answer.runId;
  }

  async function claimed(plane: ControlPlane, tenant: TenantId, wanted: number): Promise<ClaimedJob[]> {
    const jobs: ClaimedJob[] = [];
    for (let polls = 0; jobs.length < wanted; polls += 1) {
      const poll = {
        worker: "w",
        topics: ["work"],
        pollId: `${tenant} ${polls}`,
        places: wanted,
        waitMs: 5_000,
      };
      const answer = await plane.api.pollJobs({ caller: { tenant, actor: "worker:w" }, ...poll });
      if (answer.kind !== "jobs" || answer.jobs.length === 0) throw new Error(`no jobs: ${answer.kind}`);
      jobs.push(...answer.jobs);
    }
    return jobs;
  }

  const statusOf = (tenant: TenantId, runId: RunId) => async () => {
    const answer = await store.loadRun({ tenant, runId, records: [] }, { deadlineMs: 5_000 });
    return answer.kind === "run" ? answer.header.status : answer.kind;
  };

  test("two hundred results of one run at once are all applied, without a single retry", async () => {
    const tenant = `wide-${name}` as TenantId;
    const [p, q] = [await open(), await open()];
    const runId = await started(p, tenant, "wide", wide);
    const jobs = await claimed(p, tenant, amount);
    const before = metrics.total("lock_busy_retries_total");
    const answers = await Promise.all(
      jobs.map(({ job, token }, index) =>
        (index % 2 === 0 ? p : q).api.reportResult({
          caller: { tenant, actor: "worker:w" },
          jobId: job.jobId,
          token,
          outcome: "succeeded",
          output: index,
        }),
      ),
    );
    expect(answers.filter(({ kind }) => kind === "accepted")).toHaveLength(amount);
    await expect.poll(statusOf(tenant, runId)).toBe("succeeded");
    expect(metrics.total("lock_busy_retries_total")).toBe(before);
    const timeline = await store.readTimeline(
      { tenant, runId, after: 0, limit: 1_000 },
      { deadlineMs: 5_000 },
    );
    if (timeline.kind !== "timeline") throw new Error(timeline.kind);
    const completed = timeline.rows
      .flatMap(({ body }) => JSON.parse(body) as ReadonlyArray<{ type: string; step: string }>)
      .filter(({ type }) => type === "step_completed")
      .map(({ step }) => step);
    expect(new Set(completed).size).toBe(amount);
    expect(completed).toHaveLength(amount);
  });

  test("two hundred results under the strategy retry are all applied, too, by waiting", async () => {
    const tenant = `retry-${name}` as TenantId;
    const plane = await open();
    expect(
      (await plane.api.createTenant({ actor: "root", tenant, settings: { resultsStrategy: "retry" } })).kind,
    ).toBe("created");
    const runId = await started(plane, tenant, "wide", wide);
    const jobs = await claimed(plane, tenant, amount);
    const caller = { tenant, actor: "worker:w" };
    const reports = jobs.map(async ({ job, token }) => {
      const report = { jobId: job.jobId, token, outcome: "succeeded" } as const;
      for (;;) {
        const answer = await plane.api.reportResult({ caller, ...report });
        if (answer.kind !== "run_busy") return answer.kind;
        expect(answer.retryAfterMs).toBeGreaterThanOrEqual(350);
        expect(answer.retryAfterMs).toBeLessThanOrEqual(650);
        await plane.ports.clock.sleep(answer.retryAfterMs);
      }
    });
    expect(new Set(await Promise.all(reports))).toEqual(new Set(["accepted"]));
    await expect.poll(statusOf(tenant, runId)).toBe("succeeded");
  });

  test("a result that was given up is delivered from its dead letter, once, to the owner of the busy run", async () => {
    const tenant = `kept-${name}` as TenantId;
    const plane = await open({ "results.strategy": "retry", "locks.run.waitMs": 0 });
    const runId = await started(plane, tenant, "kept", { a: { type: "worker", topic: "work" } });
    const [{ job, token }] = (await claimed(plane, tenant, 1)) as [ClaimedJob];
    const lock = { namespace: "run", name: runId } as const;
    const holder = { tenant, lock, token: "somebody else" as LockToken };
    const call = { deadlineMs: 5_000 };
    const taken = await store.acquireLock({ ...holder, instance: "other", ttlMs: 60_000 }, call);
    expect(taken.kind).toBe("acquired");
    const caller = { tenant, actor: "worker:w" };
    const report = { caller, jobId: job.jobId, token, outcome: "succeeded", output: { found: 42 } } as const;
    const last = { delivery: 100, waitedMs: 50_000 };
    expect(await plane.api.reportResult({ ...report, ...last })).toEqual({ kind: "deliveries_exhausted" });
    const retry = () => plane.api.retryDeadLetter({ caller: { tenant, actor: "ann" }, id: job.jobId });
    expect(await retry()).toMatchObject({ kind: "retrying", already: false });
    expect(await retry()).toMatchObject({ kind: "retrying", already: true });
    expect(await plane.api.reportResult({ ...report, delivery: 101 })).toEqual({ kind: "accepted" });
    expect(await statusOf(tenant, runId)()).toBe("running");
    await store.releaseLock(holder, call);
    // What its owner would have found.
    const take = { token: "the next owner" as LockToken, instance: "next", ttlMs: 60_000 };
    const found = await store.takeRun({ tenant, runId, take, records: [`result/${job.step}@1`] }, call);
    expect(found).toMatchObject({
      kind: "owned",
      entries: [{ kind: "result", jobId: job.jobId }],
      records: [{ body: '{"output":{"found":42}}' }],
    });
  });

  test("a run goes on in the next process: delay, approval, job, in the order of its steps", async () => {
    const tenant = `chain-${name}` as TenantId;
    const first = await open();
    const runId = await started(first, tenant, "chain", {
      wait: { type: "delay", delay_sec: 0.3 },
      ok: { type: "approval", depends_on: ["wait"] },
      work: { type: "worker", topic: "work", depends_on: ["ok"] },
    });
    await first.close();
    const next = await open();
    const approvalId = `${runId}:work@1`.replace("work", "ok");
    const caller = { tenant, actor: "ben" };
    const decide = () => next.api.decideApproval({ caller, approvalId, decision: "approved" });
    await expect.poll(async () => (await decide()).kind).toMatch(/decided|repeated/);
    const worker = next.startWorker({
      tenant,
      name: "w",
      topics: ["work"],
      concurrency: 1,
      handler: () => ({ done: true }),
    });
    await expect.poll(statusOf(tenant, runId)).toBe("succeeded");
    await worker.stop();
  });
});
