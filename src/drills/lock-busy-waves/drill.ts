// Drill: many results for one run at once, under each way of meeting a busy run.

import type { OperationName, RequestOf } from "../../ports/store.ts";
import { runtime } from "../../sdk/runtime.ts";
import {
  type Drill,
  DrillImpossible,
  type Outcome,
  type ResultPath,
  type Size,
  type Stage,
} from "../drill.ts";
import { seconds } from "../load/times.ts";
import { areAllApplied, type ClaimedRun, claimJobs, publish, report } from "../locks/claimed-run.ts";
import type { DrillTenant, Inside, TenantFields } from "../target/target.ts";
import { outcomeOf, type VariantResult } from "./outcome.ts";
import { emptyTries, type ResultTries, type Tries } from "./tries.ts";

export const lockBusyWaves: Drill = {
  name: "lock-busy-waves",
  question:
    "When many results for one run arrive at once, how do those that find it busy come back, and what does it cost?",
  expectation:
    "Every result is applied exactly once under each strategy; over HTTP workers come again when they were told to; over the bus fixed delays come back in waves, and jitter spreads them and is finished sooner; handoff needs no retry and is finished first.",
  steps: [
    "a run with as many jobs as there are results, all claimed",
    "over HTTP: all results are reported at once, with fixed delays, with jitter, and handed to the run's owner; a worker that is told to come again does so after retry_after_ms",
    "over the bus, on an instance of the drill's own: the same, and the bus delivers again what found the run busy",
    "every try of every result is noted; the run's outputs are read",
  ],
  locks: ["run"],
  instance: {
    kind: "inside",
    settings: (size) => ({
      "results.retry.baseMs": delayMsOf[size],
      // Dead letters would end the waves before they can be seen: results over the usual cap are counted instead.
      "results.deliveriesMax": 10_000,
      // A gateway that waits for the run itself would hide how workers come back.
      "locks.run.waitMs": 0,
    }),
  },
  run: runLockBusyWaves,
};

/** `full` is the product's own delay: two waves a second. */
const delayMsOf: Readonly<Record<Size, number>> = { quick: 200, full: 500 };
const requestsOf: Readonly<Record<Size, number>> = { quick: 20, full: 100 };

/** As many as may run at once in one step; and with fewer than a crowd there are no waves. */
const requestsMax = 1_000;
const requestsMin = 12;

const variants: ReadonlyArray<{ readonly name: VariantResult["name"]; readonly settings: TenantFields }> = [
  { name: "retry-fixed", settings: { results_strategy: "retry", results_wait: "fixed" } },
  { name: "retry-jitter", settings: { results_strategy: "retry", results_wait: "jitter" } },
  { name: "handoff", settings: { results_strategy: "handoff" } },
];

/** With fixed delays one result a wave may get through, no more. */
const slackMs = 60_000;

async function runLockBusyWaves(stage: Stage): Promise<Outcome> {
  const { target, size, options } = stage;
  const requests = options.requests ?? requestsOf[size];
  if (requests < requestsMin || requests > requestsMax)
    throw new DrillImpossible(`--requests must be ${requestsMin} to ${requestsMax} for this drill.`);
  // A deployment does not show its delay; the default is as good as any.
  const delayMs = target.kind === "deployment" ? delayMsOf.full : delayMsOf[size];
  const outcomes: Outcome[] = [];
  for (const path of pathsOf(stage)) {
    const measured = await measurePath(stage, { path, requests, delayMs });
    outcomes.push(outcomeOf(measured, { path, requests, delayMs, isOwn: target.inside !== undefined }));
  }
  return {
    checks: outcomes.flatMap(({ checks }) => checks),
    tables: outcomes.flatMap(({ tables }) => tables),
    plots: outcomes.flatMap(({ plots }) => plots),
    data: { paths: outcomes.map(({ data }) => data) },
  };
}

function pathsOf({ target, options: { path } }: Stage): readonly ResultPath[] {
  if (path === "bus" && target.inside === undefined)
    throw new DrillImpossible(
      "Over the bus this drill needs an instance of its own: leave --url or --path out.",
    );
  if (path !== undefined) return [path];
  return target.inside === undefined ? ["http"] : ["http", "bus"];
}

type PathTerms = { readonly path: ResultPath; readonly requests: number; readonly delayMs: number };

async function measurePath(
  { target, signal, progress }: Stage,
  { path, requests, delayMs }: PathTerms,
): Promise<readonly VariantResult[]> {
  const done: VariantResult[] = [];
  for (const { name, settings } of variants) {
    progress(`${name} over ${path}: ${requests} results for one run`);
    const tenant = await target.createTenant(settings);
    const run = await claimJobs(tenant, { jobs: requests });
    const before = await target.readMetrics();
    const reporting = { tenant, run, withinMs: requests * delayMs + slackMs, signal };
    const tries =
      path === "bus" && target.inside !== undefined
        ? await reportOverBus(target.inside, reporting)
        : await reportOverHttp(target.inside, reporting);
    const after = await target.readMetrics();
    const rise = (metric: string, labels?: Readonly<Record<string, string>>) =>
      after.sum(metric, labels) - before.sum(metric, labels);
    done.push({
      name,
      tries,
      allApplied: await areAllApplied(tenant, run),
      resultsApplied: rise("inbox_entries_total", { kind: "result", fate: "applied" }),
      busyCounted: rise("lock_busy_retries_total"),
      deadLetters: rise("dead_letters_total"),
    });
    progress(`${name} over ${path}: finished after ${seconds(tries.endedMs)}`);
  }
  return done;
}

type Reporting = {
  readonly tenant: DrillTenant;
  readonly run: ClaimedRun;
  readonly withinMs: number;
  readonly signal: AbortSignal;
};

/** Resolves when the run has ended, or the time is over. Every try is noted where it reaches the store. */
async function reportOverBus(
  inside: Inside,
  { tenant, run: { results }, withinMs, signal }: Reporting,
): Promise<Tries> {
  const tries = emptyTries(results.map(({ jobId }) => jobId));
  const watched = watchRun(inside);
  const unwatch = inside.watchStore({
    sent: (name, request) => void tries.get(jobOf(name, request))?.sentMs.push(watched.nowMs()),
    answered(name, request, answer) {
      const result = tries.get(jobOf(name, request));
      if (result === undefined) return;
      if (answer.kind === "run_busy") result.busyMs.push(watched.nowMs());
      else if (answer.kind === "delivered" || answer.kind === "applied") result.durableMs ??= watched.nowMs();
    },
  });
  try {
    await Promise.all(results.map((result) => publish(inside, tenant, result)));
    await runtime.sleep(withinMs, AbortSignal.any([watched.ended, signal]));
    signal.throwIfAborted();
  } finally {
    unwatch();
    watched.stop();
  }
  return { results: tries, ...watched.seen };
}

/** When the run ends and how long its results wait for it, as the instance measures. Times begin now. */
function watchRun(inside: Inside | undefined) {
  const startedMs = runtime.now().monotonicMs;
  const nowMs = () => runtime.now().monotonicMs - startedMs;
  const ended = new AbortController();
  const seen: { endedMs: number | undefined; readonly lockWaitsMs: number[] } = {
    endedMs: undefined,
    lockWaitsMs: [],
  };
  const unwatch = inside?.watchMetrics({
    count(name) {
      if (name !== "runs_ended_total") return;
      seen.endedMs = nowMs();
      ended.abort();
    },
    observe(name, _labels, value) {
      if (name === "run_lock_wait_seconds") seen.lockWaitsMs.push(value * 1_000);
    },
  });
  return { nowMs, seen, ended: ended.signal, stop: () => unwatch?.() };
}

/** Empty when the call brings no result. */
function jobOf<Name extends OperationName>(name: Name, request: RequestOf<Name>): string {
  if (name !== "deliver") return "";
  const { entry } = request as RequestOf<"deliver">;
  return entry.kind === "result" ? entry.jobId : "";
}

/** A worker for each result: one that is told to come again waits for exactly as long as it was told. */
async function reportOverHttp(
  inside: Inside | undefined,
  { tenant, run: { results, runId }, withinMs, signal }: Reporting,
): Promise<Tries> {
  const worker = tenant.clientAt(tenant.client.url, "worker");
  const tries = emptyTries(results.map(({ jobId }) => jobId));
  const watched = watchRun(inside);
  const { nowMs } = watched;
  try {
    await Promise.all(
      results.map(async (result) => {
        const noted = tries.get(result.jobId) as ResultTries;
        while (noted.durableMs === undefined && nowMs() < withinMs) {
          signal.throwIfAborted();
          noted.sentMs.push(nowMs());
          const again = await report(worker, result);
          if (again === undefined) noted.durableMs = nowMs();
          else {
            noted.busyMs.push(nowMs());
            noted.told.push(again);
            // Not by the signal: Node warns of a leak when more than ten wait for the same one.
            await runtime.sleep(again.pauseMs);
          }
        }
      }),
    );
    const run = await tenant.client.runs.wait(runId, { timeoutMs: withinMs, signal });
    if (run.status === "succeeded") watched.seen.endedMs ??= nowMs();
  } finally {
    watched.stop();
  }
  return { results: tries, ...watched.seen };
}
