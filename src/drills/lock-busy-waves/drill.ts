// Drill: many results for one run at once, under each way of meeting a busy run.

import type { OperationName, RequestOf } from "../../ports/store.ts";
import type { Client } from "../../sdk/client.ts";
import { InterlockApiError } from "../../sdk/client-errors.ts";
import { runtime } from "../../sdk/runtime.ts";
import { type Drill, DrillImpossible, type Outcome, type Size, type Stage } from "../drill.ts";
import { seconds } from "../load/times.ts";
import {
  areAllApplied,
  type ClaimedResult,
  type ClaimedRun,
  claimJobs,
  publish,
  workerName,
} from "../locks/claimed-run.ts";
import type { Inside, TenantFields } from "../target/target.ts";
import {
  emptyTries,
  outcomeOf,
  type Reporting,
  type ResultTries,
  type Tries,
  type VariantResult,
} from "./outcome.ts";

export const lockBusyWaves: Drill = {
  name: "lock-busy-waves",
  question:
    "When many results for one run arrive at once, how do those that find it busy come back, and what does it cost?",
  expectation:
    "Every result is applied exactly once under each strategy; fixed delays come back in waves, jitter spreads them and is finished sooner, and handoff needs no retry and is finished first.",
  steps: [
    "a run with as many jobs as there are results, all claimed",
    "all results are reported at once: with fixed delays, with jitter, and handed to the run's owner",
    "every try of every result is noted; the run's outputs are read",
  ],
  instance: {
    kind: "inside",
    // Dead letters would end the waves before they can be seen: results over the usual cap are counted instead.
    settings: (size) => ({ "results.retry.baseMs": delayMsOf[size], "results.deliveriesMax": 10_000 }),
  },
  run: runLockBusyWaves,
};

/** `full` is the product's own delay: two waves a second. */
const delayMsOf: Readonly<Record<Size, number>> = { quick: 200, full: 500 };
const requestsOf: Readonly<Record<Size, number>> = { quick: 30, full: 100 };

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
  const { target, size, options, signal, progress } = stage;
  const requests = options.requests ?? requestsOf[size];
  if (requests < requestsMin || requests > requestsMax)
    throw new DrillImpossible(`--requests must be ${requestsMin} to ${requestsMax} for this drill.`);
  // A deployment does not show its delay; the default is as good as any.
  const delayMs = target.kind === "deployment" ? delayMsOf.full : delayMsOf[size];
  const done: VariantResult[] = [];
  for (const { name, settings } of variants) {
    progress(`${name}: ${requests} results for one run`);
    const tenant = await target.createTenant(settings);
    const run = await claimJobs(tenant, { jobs: requests });
    const before = await target.readMetrics();
    const reporting = { tenant, withinMs: requests * delayMs + slackMs, signal };
    const tries =
      target.inside === undefined
        ? await reportOverHttp(run, reporting)
        : await reportOverBus(target.inside, run, reporting);
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
    progress(`${name}: finished after ${seconds(tries.endedMs)}`);
  }
  return outcomeOf(done, { requests, delayMs, way: target.inside === undefined ? "http" : "bus" });
}

/** Resolves when the run has ended, or the time is over. */
async function reportOverBus(
  inside: Inside,
  { results }: ClaimedRun,
  { tenant, withinMs, signal }: Reporting,
): Promise<Tries> {
  const startedMs = runtime.now().monotonicMs;
  const nowMs = () => runtime.now().monotonicMs - startedMs;
  const tries = emptyTries(results.map(({ jobId }) => jobId));
  const lockWaitsMs: number[] = [];
  const ended = new AbortController();
  let endedMs: number | undefined;
  const unwatchStore = inside.watchStore({
    sent: (name, request) => void tries.get(jobOf(name, request))?.sentMs.push(nowMs()),
    answered(name, request, answer) {
      const result = tries.get(jobOf(name, request));
      if (result === undefined) return;
      if (answer.kind === "run_busy") result.busyMs.push(nowMs());
      else if (answer.kind === "delivered" || answer.kind === "applied") result.durableMs ??= nowMs();
    },
  });
  const unwatchMetrics = inside.watchMetrics({
    count(name) {
      if (name !== "runs_ended_total") return;
      endedMs = nowMs();
      ended.abort();
    },
    observe(name, _labels, value) {
      if (name === "run_lock_wait_seconds") lockWaitsMs.push(value * 1_000);
    },
  });
  try {
    await Promise.all(results.map((result) => publish(inside, tenant, result)));
    await runtime.sleep(withinMs, AbortSignal.any([ended.signal, signal]));
    signal.throwIfAborted();
  } finally {
    unwatchStore();
    unwatchMetrics();
  }
  return { results: tries, endedMs, lockWaitsMs };
}

/** Empty when the call brings no result. */
function jobOf<Name extends OperationName>(name: Name, request: RequestOf<Name>): string {
  if (name !== "deliver") return "";
  const { entry } = request as RequestOf<"deliver">;
  return entry.kind === "result" ? entry.jobId : "";
}

/** Resolves when the run has ended, or the time is over. */
async function reportOverHttp(
  { results, runId }: ClaimedRun,
  { tenant, withinMs, signal }: Reporting,
): Promise<Tries> {
  const worker = tenant.clientAt(tenant.client.url, "worker");
  const startedMs = runtime.now().monotonicMs;
  const nowMs = () => runtime.now().monotonicMs - startedMs;
  const tries = emptyTries(results.map(({ jobId }) => jobId));
  await Promise.all(
    results.map(async (result) => {
      const noted = tries.get(result.jobId) as ResultTries;
      while (noted.durableMs === undefined && nowMs() < withinMs) {
        signal.throwIfAborted();
        noted.sentMs.push(nowMs());
        const pauseMs = await reportOnce(worker, result);
        if (pauseMs === undefined) noted.durableMs = nowMs();
        else {
          noted.busyMs.push(nowMs());
          await runtime.sleep(pauseMs, signal);
        }
      }
    }),
  );
  const run = await tenant.client.runs.wait(runId, { timeoutMs: withinMs, signal });
  return { results: tries, endedMs: run.status === "succeeded" ? nowMs() : undefined, lockWaitsMs: [] };
}

const pauseMsDefault = 500;

/** How long to wait before the next report; undefined when the result is durable. */
async function reportOnce(
  worker: Client,
  { jobId, token, output }: ClaimedResult,
): Promise<number | undefined> {
  try {
    const answer = await worker.call("reportResults", {
      body: {
        worker_id: workerName,
        results: [{ job_id: jobId, claim_token: token, status: "succeeded", output }],
      },
      retry: { attemptsMax: 1 },
    });
    const [{ kind, because, retry_after_ms } = { kind: "retry" }] = answer.results;
    if (kind === "refused") throw new Error(`the result of ${jobId} was refused: ${because}`);
    return kind === "retry" ? (retry_after_ms ?? pauseMsDefault) : undefined;
  } catch (error) {
    if (error instanceof InterlockApiError && error.retryable) return error.retryAfterMs ?? pauseMsDefault;
    throw error;
  }
}
