// A start that is refused for want of a slot must leave its idempotency key free: the same request succeeds later.
import type { AdmissionStrategy } from "../../domain/tenant.ts";
import { runtime } from "../../sdk/runtime.ts";
import type { Check, Drill, Outcome, Plot, Stage } from "../drill.ts";
import { startBlockingWorker } from "./blocking-worker.ts";
import { keySteps, stepNames } from "./key-steps.ts";

export const keySurvives429: Drill = {
  name: "key-survives-429",
  question: "Can a start that was refused with 429 be repeated later with the same Idempotency-Key?",
  expectation:
    "The refusal leaves the key free; once the slot is free the same request starts one run, the key maps to it, and every repeat gets it.",
  steps: stepNames,
  instance: { kind: "inside" },
  run,
};

const strategies = ["atomic", "lock"] as const satisfies readonly AdmissionStrategy[];

async function run(stage: Stage): Promise<Outcome> {
  const timed: TimedCheck[] = [];
  for (const strategy of strategies) timed.push(...(await withStrategy(stage, strategy)));
  return {
    checks: timed.map(({ tookMs: _took, strategy: _strategy, ...check }) => check),
    tables: [],
    plots: [plotOf(timed)],
    data: { timed },
  };
}

type TimedCheck = Check & { readonly strategy: AdmissionStrategy; readonly tookMs: number };

async function withStrategy(
  { target, signal, progress }: Stage,
  strategy: AdmissionStrategy,
): Promise<TimedCheck[]> {
  // A tenant of its own for each strategy: no gateway has anything of it in its memory.
  const tenant = await target.createTenant({ max_concurrent_runs: 1, admission_strategy: strategy });
  const worker = startBlockingWorker(tenant, target.urls[0] as string);
  try {
    const checks: TimedCheck[] = [];
    let sinceMs = runtime.now().monotonicMs;
    for await (const one of keySteps({ target, tenant, worker, strategy, signal })) {
      signal.throwIfAborted();
      progress(`${one.what}: ${one.seen}`);
      const nowMs = runtime.now().monotonicMs;
      checks.push({ ...one, strategy, tookMs: nowMs - sinceMs });
      sinceMs = nowMs;
    }
    return checks;
  } finally {
    await worker.stop();
  }
}

function plotOf(timed: readonly TimedCheck[]): Plot {
  return {
    title: "Time that each check took",
    kind: "bars",
    x: "check, in the order above",
    y: "ms",
    series: strategies.map((name) => ({
      name,
      points: timed
        .filter(({ strategy }) => strategy === name)
        .map(({ tookMs }, index) => [index + 1, Math.round(tookMs * 10) / 10] as const),
    })),
    note: "The start that is refused, and the one that succeeds with the same key, each take a request's time: nothing waits for a key to expire.",
  };
}
