// Drill: many results for one run at once, under each way of meeting a busy run.
import { type Drill, DrillImpossible, type Outcome, type Size, type Stage } from "../drill.ts";
import { seconds } from "../load/times.ts";
import { areAllApplied, claimJobs } from "../locks/claimed-run.ts";
import type { TenantFields } from "../target/target.ts";
import { outcomeOf, type VariantResult } from "./outcome.ts";
import { reportOverBus } from "./report-over-bus.ts";
import { reportOverHttp } from "./report-over-http.ts";

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
