// The record that a drill is judged by: the answers to a steady load, what its workers did, and how its runs ended.
import type { StartTry } from "./steady-load.ts";

/** One start under its key, sent again until it was answered, as every client should. Times are since the load began. */
export type StartRecord = {
  readonly key: string;
  readonly order: number;
  readonly askedAtMs: number;
  readonly tries: StartTry[];
  /** Once it was acknowledged. */
  acknowledged?: { readonly runId: string; readonly atMs: number };
};

/** A run that was acknowledged before, looked at while the load goes on. */
export type ReadRecord = { readonly atMs: number; readonly tookMs: number; readonly outcome: string };

export type WorkNote = { readonly worker: string; readonly jobId: string } & (
  | {
      readonly kind: "claimed";
      readonly runId: string;
      readonly step: string;
      readonly attempt: number;
      readonly claimToken: string;
    }
  /** The work itself was done; whether it counts is decided by the report. */
  | { readonly kind: "done"; readonly runId: string; readonly step: string }
  | { readonly kind: "reported"; readonly verdict: string }
  /** The worker noticed by itself. */
  | { readonly kind: "claim_lost" }
);

export type TimedNote = WorkNote & { readonly atMs: number };

/** A start in the end, read back: its key sent once more, and its run looked up. */
export type EndRecord = {
  readonly key: string;
  /** What the key is answered with now. */
  readonly repeated: { readonly runId: string; readonly replayed: boolean } | undefined;
  /** Undefined when the acknowledged run does not exist. */
  readonly run: EndedRun | undefined;
};

export type EndedRun = {
  readonly runId: string;
  readonly status: string;
  readonly createdAtMs: number;
  readonly endedAtMs: number | undefined;
  /** By step: the job whose result the run keeps. */
  readonly counted: Readonly<Record<string, string | undefined>>;
};

export type Ledger = {
  readonly starts: readonly StartRecord[];
  readonly reads: readonly ReadRecord[];
  readonly work: readonly TimedNote[];
  readonly ends: readonly EndRecord[];
};

export type Judgement = {
  readonly acknowledged: number;
  /** Starts that nobody has answered for good. */
  readonly undecided: readonly string[];
  /** Acknowledged, and their run is not there. */
  readonly lost: readonly string[];
  /** Keys that now name another run than the one that was acknowledged. */
  readonly otherRun: readonly string[];
  readonly notSucceeded: readonly string[];
  /** Steps of runs that succeeded without a worker that did them. */
  readonly notDone: readonly string[];
  /** Steps with two accepted results. */
  readonly countedTwice: readonly string[];
  /** Steps that keep another result than the accepted one. */
  readonly otherResult: readonly string[];
  /** Allowed, and worth knowing: a worker that lost its claim may have done the work already. */
  readonly doneTwice: readonly string[];
};

export function judge(ledger: Ledger): Judgement {
  const { starts, ends } = ledger;
  const byKey = new Map(ends.map((end) => [end.key, end]));
  const acknowledged = starts.filter((start) => start.acknowledged !== undefined);
  const endOf = ({ key }: StartRecord) => byKey.get(key);
  const keysOf = (records: readonly StartRecord[]) => records.map(({ key }) => key);
  const steps = stepsOf(ledger);
  return {
    acknowledged: acknowledged.length,
    undecided: keysOf(starts.filter((start) => start.acknowledged === undefined)),
    lost: keysOf(acknowledged.filter((start) => endOf(start)?.run === undefined)),
    otherRun: keysOf(
      acknowledged.filter((start) => endOf(start)?.repeated?.runId !== start.acknowledged?.runId),
    ),
    notSucceeded: keysOf(acknowledged.filter((start) => endOf(start)?.run?.status !== "succeeded")),
    notDone: namesOf(steps, ({ kept, done }) => kept === undefined || !done.has(kept)),
    countedTwice: namesOf(steps, ({ counted }) => counted.size > 1),
    otherResult: namesOf(
      steps,
      ({ kept, counted }) => counted.size > 0 && kept !== undefined && !counted.has(kept),
    ),
    doneTwice: namesOf(steps, ({ done }) => done.size > 1),
  };
}

type StepWork = {
  readonly name: string;
  /** The job whose result the run keeps. */
  readonly kept: string | undefined;
  /** Jobs of it that were done, and jobs whose result was accepted. */
  readonly done: ReadonlySet<string>;
  readonly counted: ReadonlySet<string>;
};

/** Every step of every run that succeeded. */
function stepsOf({ work, ends }: Ledger): readonly StepWork[] {
  const done = new Map<string, Set<string>>();
  const stepOfJob = new Map<string, string>();
  const counted = new Map<string, Set<string>>();
  const add = (to: Map<string, Set<string>>, step: string, job: string) =>
    to.set(step, (to.get(step) ?? new Set()).add(job));
  for (const note of work) if (note.kind === "claimed") stepOfJob.set(note.jobId, stepName(note));
  for (const note of work) {
    const step = stepOfJob.get(note.jobId);
    if (step === undefined) continue;
    if (note.kind === "done") add(done, step, note.jobId);
    if (note.kind === "reported" && doesCount(note.verdict)) add(counted, step, note.jobId);
  }
  return ends.flatMap(({ run }) => {
    if (run?.status !== "succeeded") return [];
    return Object.entries(run.counted).map(([step, kept]) => {
      const name = stepName({ runId: run.runId, step });
      return { name, kept, done: done.get(name) ?? new Set(), counted: counted.get(name) ?? new Set() };
    });
  });
}

/** `duplicate`: the same report had been taken already, and only its answer was lost. */
export function doesCount(verdict: string): boolean {
  return verdict === "accepted" || verdict === "duplicate";
}

function stepName({ runId, step }: { readonly runId: string; readonly step: string }): string {
  return `${runId}:${step}`;
}

function namesOf(steps: readonly StepWork[], isWrong: (step: StepWork) => boolean): readonly string[] {
  return steps.filter(isWrong).map(({ name }) => name);
}
