// A start that is refused for want of a slot must leave its idempotency key free: the same request succeeds later.
import type { Check, Drill, Outcome, Stage } from "../drill.ts";
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

const strategies = ["atomic", "lock"] as const;

async function run(stage: Stage): Promise<Outcome> {
  const checks: Check[] = [];
  for (const strategy of strategies) checks.push(...(await withStrategy(stage, strategy)));
  return { checks, tables: [], plots: [], data: { checks } };
}

async function withStrategy(
  { target, signal, progress }: Stage,
  strategy: (typeof strategies)[number],
): Promise<Check[]> {
  // A tenant of its own for each strategy: no gateway has anything of it in its memory.
  const tenant = await target.createTenant({
    max_concurrent_runs: 1,
    admission_strategy: strategy,
  });
  const worker = startBlockingWorker(tenant, target.urls[0] as string);
  try {
    const checks: Check[] = [];
    for await (const one of keySteps({ target, tenant, worker, strategy, signal })) {
      signal.throwIfAborted();
      progress(`${one.what}: ${one.seen}`);
      checks.push(one);
    }
    return checks;
  } finally {
    await worker.stop();
  }
}
