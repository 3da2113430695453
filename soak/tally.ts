// What the load of a soak has done: operations, failures that should not be, latencies, and how many records of each kind it made.
import { InterlockApiError, type ProblemCode } from "../src/sdk/index.ts";

/** Every kind of record that something trims; what is measured is how often its whole stock was replaced. */
export const kinds = {
  "ended runs": "after retention.runDays, with their jobs, steps and timelines",
  "idempotency keys": "after admission.keyRetentionDays",
  approvals: "with their runs",
  "dead letters": "after retention.deadLetterDays",
  "timeline rows": "beyond retention.timelineRowsMax of one run",
  "event rows": "beyond store.eventsPerTenantMax",
  "audit records": "after audit.keepDays, once sealed",
  locks: "some time after their last grant",
  "lock endings": "some time after a grant was followed by another",
  "revoked keys": "some time after the revocation",
} as const;

export type RecordKind = keyof typeof kinds;

export type Tally = {
  starts: number;
  operations: number;
  /** By what was asked and how it failed. */
  readonly failures: Map<string, { count: number; readonly example: string }>;
  /** Records that the load has surely made. Events and audit records number themselves: what the store has says how many. */
  readonly made: Map<RecordKind, number>;
  /** Of the chain runs that were looked at: those whose timelines had lost rows. */
  trimmedTimelines: number;
  /** Since they were last taken. */
  startMs: number[];
  runMs: number[];
};

export function createTally(): Tally {
  return {
    starts: 0,
    operations: 0,
    failures: new Map(),
    made: new Map(),
    trimmedTimelines: 0,
    startMs: [],
    runMs: [],
  };
}

export function noteMade(tally: Tally, kind: RecordKind): void {
  tally.made.set(kind, (tally.made.get(kind) ?? 0) + 1);
}

export function noteFailure(tally: Tally, what: string, example: string): void {
  const known = tally.failures.get(what);
  if (known === undefined) tally.failures.set(what, { count: 1, example: example.slice(0, 500) });
  else known.count += 1;
}

/** Counts one operation. Undefined when it failed, which is noted, or ended with one of the expected codes. */
export async function attempt<Value>(
  tally: Tally,
  what: string,
  send: () => Promise<Value>,
  expected: readonly ProblemCode[] = [],
): Promise<Value | undefined> {
  tally.operations += 1;
  try {
    return await send();
  } catch (error) {
    const code = error instanceof InterlockApiError ? error.code : undefined;
    if (code !== undefined && expected.includes(code)) return undefined;
    noteFailure(tally, `${what}: ${code ?? (error as Error).name}`, String(error));
    return undefined;
  }
}
