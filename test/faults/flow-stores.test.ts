// Whole flows on every real store: two hundred results of one run at once, and runs that outlive the process that began them.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { MemoryMetrics } from "../../src/adapters/memory-metrics.ts";
import type { ClaimedJob } from "../../src/control/jobs/offers.ts";
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

  async function open(): Promise<ControlPlane> {
    // Closing a plane closes its store, which others still use here.
    const shared = { ...store, close: async () => {} };
    const plane = await createControlPlane({ ports: { store: shared, log: silentLog, metrics } });
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
