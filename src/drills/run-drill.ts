// Runs one drill from its target's beginning to its end, and says whether its expectation was met.
import { type LockNamespace, lockNamespaces } from "../domain/lock.ts";
import { runtime } from "../sdk/runtime.ts";
import { type Check, check, type Drill, type DrillOptions, type Outcome, type Size } from "./drill.ts";
import { openTarget, type Where } from "./target/open-target.ts";
import type { Reading, Target } from "./target/target.ts";

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
    const before = await target.readMetrics();
    const { checks, ...rest } = await drill.run({ target, size, options, signal, progress });
    outcome = { checks: [...checks, ...(await checkLocks(drill, target, before))], ...rest };
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

/** Nothing on a deployment, where others take locks at the same time. */
async function checkLocks({ locks }: Drill, target: Target, before: Reading): Promise<readonly Check[]> {
  return target.kind === "deployment" ? [] : [judgeLocks(locks, before, await target.readMetrics())];
}

/** Whether a drill takes the locks that it says it takes, and no other: their pages rely on it. */
export function judgeLocks(locks: readonly LockNamespace[], before: Reading, after: Reading): Check {
  const taken = locksTaken(before, after);
  const shown = (names: readonly LockNamespace[]) => (names.length === 0 ? "none" : names.join(", "));
  const isSame = taken.length === locks.length && taken.every((lock) => locks.includes(lock));
  return check("kinds of locks that were taken or renewed", shown(locks), shown(taken), isSame);
}

/** By what was counted. The lock of a run that comes with its entry (`handoff`) is neither asked for nor renewed. */
function locksTaken(before: Reading, after: Reading): readonly LockNamespace[] {
  const rise = (name: string, labels?: Readonly<Record<string, string>>) =>
    after.sum(name, labels) - before.sum(name, labels);
  return lockNamespaces.filter(
    (lock) =>
      rise("lock_acquire_seconds_count", { lock }) > 0 ||
      rise("lock_renewals_total", { lock }) > 0 ||
      (lock === "run" && rise("run_lock_acquired_total") > 0),
  );
}
