// Runs one drill from its target's beginning to its end, and says whether its expectation was met.
import { runtime } from "../sdk/runtime.ts";
import type { Drill, DrillOptions, Outcome, Size } from "./drill.ts";
import { openTarget, type Where } from "./target/open-target.ts";

export type DrillRun = {
  readonly name: string;
  readonly question: string;
  readonly expectation: string;
  readonly steps: readonly string[];
  readonly target: string;
  readonly size: Size;
  readonly startedAtMs: number;
  readonly tookMs: number;
  readonly verdict: "met" | "not met";
} & Outcome;

export type RunOptions = DrillOptions & {
  readonly where: Where;
  readonly size: Size;
  readonly signal: AbortSignal;
  progress(line: string): void;
};

export async function runDrill(drill: Drill, options: RunOptions): Promise<DrillRun> {
  const { where, size, signal, progress } = options;
  const started = runtime.now();
  progress(where.kind === "deployment" ? `asking ${where.url}` : "starting an instance for the drill");
  const target = await openTarget(where, drill.instance, size);
  let outcome: Outcome;
  try {
    outcome = await drill.run({ target, size, options, signal, progress });
  } finally {
    progress("cleaning up");
    await target.close();
  }
  const { name, question, expectation, steps } = drill;
  return {
    ...{ name, question, expectation, steps, target: target.name, size },
    startedAtMs: started.wallMs,
    tookMs: runtime.now().monotonicMs - started.monotonicMs,
    verdict: outcome.checks.length > 0 && outcome.checks.every(({ holds }) => holds) ? "met" : "not met",
    ...outcome,
  };
}
