// Two hundred results of one run at once, by every strategy: how many are applied, how often they found the run busy.

import { createInProcessBus } from "../src/adapters/in-process-bus.ts";
import { MemoryMetrics } from "../src/adapters/memory-metrics.ts";
import { systemClock } from "../src/adapters/system/system.ts";
import { createSystemLog } from "../src/adapters/system/system-log.ts";
import { publishResult } from "../src/control/jobs/hear-results.ts";
import type { ClaimedJob } from "../src/control/jobs/offers.ts";
import { createControlPlane } from "../src/control-plane.ts";
import type { TenantId } from "../src/domain/tenant.ts";
import type { RunsRound } from "./runs-plan.ts";
import type { Measurement } from "./slices.ts";
import { percentile } from "./statistics.ts";

export const resultStrategies = ["retry-fixed", "retry-jitter", "handoff"] as const;
type ResultStrategy = (typeof resultStrategies)[number];

const results = 200;
/** What has not been applied by then is not waited for. */
const cutOffMs = 10_000;
const tenant = "bench" as TenantId;
const caller = { tenant, actor: "bench" };

export function hotRunMeasurements(scale: { readonly slices: number }): readonly Measurement<RunsRound>[] {
  return resultStrategies.map((strategy) => ({
    name: `results.${strategy}.n200`,
    slices: scale.slices,
    fields: {
      applied: { unit: "results", over: "median" },
      busy_retries: { unit: "retries", over: "median" },
      dead_lettered: { unit: "results", over: "median" },
      total_ms: { unit: "ms", over: "median" },
      p95_ms: { unit: "ms", over: "median" },
    },
    measure: () => measureHotRun(strategy),
  }));
}

const settings = {
  "retry-fixed": { "results.strategy": "retry", "results.retry.wait": "fixed" },
  "retry-jitter": { "results.strategy": "retry", "results.retry.wait": "jitter" },
  handoff: { "results.strategy": "handoff" },
} as const;

/** The results arrive over the bus, whose delayed redelivery is part of what is compared. */
async function measureHotRun(strategy: ResultStrategy) {
  const log = createSystemLog("error");
  const bus = createInProcessBus({ clock: systemClock, log });
  const metrics = new MemoryMetrics(10);
  const overrides = { "store.kind": "memory", ...settings[strategy] } as const;
  const plane = await createControlPlane({ overrides, bus, ports: { log, metrics } });
  try {
    const steps = Object.fromEntries(
      Array.from({ length: results }, (_, index) => [`step-${index}`, { topic: "hot" }]),
    );
    const saved = await plane.api.saveWorkflow({ caller, definition: { id: "hot", steps } });
    if (saved.kind !== "saved") throw new Error("the workflow was not saved");
    const started = await plane.api.startWorkflow({ caller, workflow: "hot", input: {} });
    if (started.kind !== "admitted") throw new Error(`not admitted: ${started.kind}`);
    const jobs = await claimAll(plane.api);
    const startMs = performance.now();
    for (const { job, token } of jobs) {
      await publishResult(bus, {
        tenant,
        report: { jobId: job.jobId, token, outcome: "succeeded", output: {} },
      });
    }
    const times: number[] = [];
    const seen = new Set<string>();
    for (let after = 1; seen.size < results && performance.now() - startMs < cutOffMs; ) {
      const timeline = await plane.api.readTimeline({ tenant, runId: started.runId, after, limit: 1_000 });
      if (timeline.kind !== "timeline") throw new Error("the run has no timeline");
      for (const row of timeline.rows) {
        after = row.version;
        for (const { type, step } of JSON.parse(row.body) as Array<{ type: string; step?: string }>) {
          if (type !== "step_completed" || step === undefined || seen.has(step)) continue;
          seen.add(step);
          times.push(performance.now() - startMs);
        }
      }
      await systemClock.sleep(1);
    }
    return {
      applied: seen.size,
      busy_retries: metrics.total("lock_busy_retries_total"),
      dead_lettered: metrics.total("dead_letters_total"),
      total_ms: seen.size === results ? Math.max(...times) : cutOffMs,
      p95_ms: percentile([...times, ...Array<number>(results - times.length).fill(cutOffMs)], 95),
    };
  } finally {
    await Promise.race([plane.close(), systemClock.sleep(2_000)]);
  }
}

type Api = Awaited<ReturnType<typeof createControlPlane>>["api"];

async function claimAll(api: Api): Promise<readonly ClaimedJob[]> {
  const jobs: ClaimedJob[] = [];
  for (let polls = 0; jobs.length < results; polls += 1) {
    const answer = await api.pollJobs({
      caller,
      worker: "bench",
      topics: ["hot"],
      pollId: String(polls),
      places: results,
      waitMs: 200,
    });
    if (answer.kind !== "jobs") throw new Error(`no jobs: ${answer.kind}`);
    jobs.push(...answer.jobs);
  }
  return jobs;
}
