// The random commands of the differential test: few tenants, runs, tokens and keys, so that they meet each other often.
import fc from "fast-check";
import type { AtLimit } from "../../src/domain/gates.ts";
import type { NewEntry } from "../../src/domain/inbox.ts";
import type { RenewalPolicy } from "../../src/domain/lock.ts";
import type { RunStatus } from "../../src/domain/run.ts";
import type { OperationName } from "../../src/ports/store.ts";

/** Times stand far apart, so that no outcome depends on how fast a store answers. */
export const ttls = { short: 60, long: 600_000 } as const;
export type Ttl = keyof typeof ttls;

/** What a change or a proposal holds besides its status. */
export type ChangeChoice = {
  readonly status: RunStatus;
  readonly jobs: number;
  readonly bornClaimed: boolean;
  readonly held: boolean;
  readonly releasesJobs: boolean;
  /** The first bit sets the timer t0, the second t1, the third clears t0. */
  readonly timers: number;
  readonly timersDue: boolean;
  readonly approval: "none" | "open" | "expired" | "separate";
  readonly voidsJob: boolean;
  readonly closesApproval: boolean;
  readonly letter: boolean;
  readonly children: number;
  readonly cancelsChildren: boolean;
};

/** What a start brings to its gates. */
type GatesChoice = {
  /** A bit each: two keyed gates, the workflow's, and a named one. */
  readonly mask: number;
  /** Of each of them, and of the tenant's. */
  readonly atLimits: readonly AtLimit[];
  readonly priority: number;
  readonly fairnessKey: string;
  readonly weight: number;
  readonly releases: boolean;
  readonly queueMax: number;
  readonly deadline: Ttl;
  /** Of a gate whose limit is saved. */
  readonly max: number | undefined;
};

export type CallCommand = {
  readonly kind: "call";
  readonly name: OperationName;
  readonly tenant: number;
  readonly run: number;
  /** How many generations below that run, as far as there are any. */
  readonly generation: number;
  /** Which of the known jobs, approvals or documents. */
  readonly pick: number;
  readonly token: number;
  readonly lock: number;
  /** Asks for a place in the queue, or gives one back. */
  readonly queues: boolean;
  readonly key: number | undefined;
  readonly fingerprint: number;
  readonly ttl: Ttl;
  readonly policy: RenewalPolicy;
  readonly limit: number | undefined;
  readonly strategy: "atomic" | "lock" | undefined;
  readonly stopped: boolean;
  readonly revoked: boolean;
  /** Limits of topics and pools: a bit each. */
  readonly limits: number;
  /** The tenant's own quotas, all the same. */
  readonly quota: number | undefined;
  readonly pool: string | undefined;
  readonly credential: string | undefined;
  /** 0 expects what the run, tenant or document is known to have. */
  readonly versionOffset: number;
  readonly change: ChangeChoice;
  readonly entry: NewEntry["kind"];
  readonly proposes: boolean;
  readonly whenBusy: "append" | "refuse";
  readonly consumed: number;
  /** Acts with somebody else's token. */
  readonly stranger: boolean;
  readonly inbox: boolean;
  readonly page: number;
  /** The gates of a start, and of what is asked or saved of gates: a bit each; undefined starts without a plan. */
  readonly gates: number | undefined;
  /** The same for sequences about queues. */
  readonly plan: GatesChoice | undefined;
  readonly twice: boolean;
};

export type Command =
  | { readonly kind: "wait" }
  /** Sends an earlier request once more, as a late duplicate would. */
  | { readonly kind: "again"; readonly back: number }
  | CallCommand;

/** Weighted so that grants, entries, jobs and commits meet each other often in short sequences. */
const weights: { readonly [Name in OperationName]: number } = {
  acquireLock: 14,
  renewLock: 2,
  releaseLock: 6,
  inspectLock: 1,
  listLocks: 2,
  breakLock: 2,
  getTenant: 1,
  setTenant: 3,
  admit: 14,
  reserve: 4,
  cancelReservation: 1,
  countActive: 1,
  countUsage: 2,
  createRun: 4,
  loadRun: 3,
  listRuns: 2,
  readTimeline: 2,
  deleteRun: 2,
  deliver: 18,
  takeRun: 8,
  commit: 20,
  claimJobs: 10,
  heartbeatJobs: 5,
  getJob: 3,
  listReadyJobs: 2,
  countJobs: 4,
  getApproval: 2,
  listApprovals: 2,
  putDocument: 3,
  getDocument: 1,
  listDocuments: 2,
  removeDocument: 1,
  handOn: 1,
  listGates: 1,
  inspectGate: 1,
  listLedgers: 1,
  moveQueued: 1,
  findDue: 3,
  sweep: 8,
  listActive: 1,
  inspectReservation: 2,
  readEvents: 4,
  dropTrail: 1,
};

/** Of a tree: what starts, ends, cancels and opens runs again, and what shows it. */
const treeWeights: Partial<Record<OperationName, number>> = {
  acquireLock: 10,
  setTenant: 4,
  admit: 6,
  countActive: 2,
  loadRun: 4,
  listRuns: 3,
  readTimeline: 2,
  deleteRun: 1,
  deliver: 22,
  takeRun: 16,
  commit: 34,
  getDocument: 2,
  sweep: 2,
  listActive: 3,
  inspectReservation: 2,
  readEvents: 4,
  dropTrail: 1,
};

/** Of held jobs: their locks, the verdicts, and who gets them then. */
const heldWeights: Partial<Record<OperationName, number>> = {
  acquireLock: 20,
  releaseLock: 3,
  setTenant: 1,
  admit: 6,
  deliver: 30,
  takeRun: 8,
  commit: 16,
  claimJobs: 8,
  heartbeatJobs: 4,
  getJob: 10,
  listReadyJobs: 5,
  sweep: 2,
  readTimeline: 2,
};

/** Of repairs: letters that are retried, cancels between them, and owners that take the run and give it up again and again. */
const repairWeights: Partial<Record<OperationName, number>> = {
  admit: 4,
  setTenant: 1,
  deliver: 26,
  takeRun: 30,
  releaseLock: 26,
  commit: 22,
  claimJobs: 4,
  getDocument: 4,
  loadRun: 4,
  listActive: 3,
  inspectReservation: 2,
  readTimeline: 2,
  readEvents: 4,
  countUsage: 2,
};

function chosenFrom(amounts: Partial<Record<OperationName, number>>): fc.Arbitrary<OperationName> {
  const names = Object.entries(amounts).map(([name, weight]) => ({
    weight,
    arbitrary: fc.constant(name as OperationName),
  }));
  return fc.oneof(...names);
}

/** The first, but one time in `often` the second. */
export function seldom<Value>(usual: Value, other: Value, often = 6): fc.Arbitrary<Value> {
  return fc.oneof(
    { weight: often - 1, arbitrary: fc.constant(usual) },
    { weight: 1, arbitrary: fc.constant(other) },
  );
}

const goingOn = fc.constantFrom<RunStatus>("running", "waiting");

export const changes = {
  status: fc.oneof(
    { weight: 9, arbitrary: goingOn },
    { weight: 1, arbitrary: fc.constantFrom<RunStatus>("succeeded", "failed", "cancelled") },
  ),
  jobs: fc.nat({ max: 2 }),
  bornClaimed: fc.boolean(),
  held: seldom(false, true, 3),
  releasesJobs: seldom(false, true, 3),
  timers: fc.nat({ max: 7 }),
  timersDue: fc.boolean(),
  approval: fc.constantFrom("none", "none", "open", "expired", "separate"),
  voidsJob: seldom(false, true),
  closesApproval: seldom(false, true),
  letter: seldom(false, true),
  children: fc.constantFrom(0, 0, 0, 1, 2),
  cancelsChildren: seldom(false, true, 4),
};

const treeChanges = {
  ...changes,
  status: fc.oneof(
    { weight: 3, arbitrary: goingOn },
    {
      weight: 1,
      arbitrary: fc.constantFrom<RunStatus>("failed", "failed", "failed", "timed_out", "succeeded"),
    },
  ),
  children: fc.constantFrom(0, 1, 1, 2),
  letter: seldom(true, false, 3),
};

export const choices = {
  kind: fc.constant("call" as const),
  tenant: seldom(0, 1, 12),
  run: fc.constantFrom<number>(0, 0, 0, 0, 1, 1, 2),
  generation: fc.constantFrom(0, 0, 0, 0, 1, 1, 2),
  pick: fc.nat({ max: 5 }),
  token: fc.nat({ max: 2 }),
  lock: fc.constantFrom(0, 1, 1, 2, 3),
  queues: fc.boolean(),
  key: fc.option(fc.nat({ max: 2 }), { nil: undefined, freq: 2 }),
  fingerprint: seldom(0, 1),
  ttl: seldom<Ttl>("long", "short", 8),
  policy: fc.constantFrom<RenewalPolicy>("fence", "continue"),
  limit: fc.option(fc.integer({ min: 1, max: 3 }), { nil: undefined }),
  strategy: fc.constantFrom(undefined, undefined, undefined, "atomic" as const, "lock" as const),
  stopped: seldom(false, true),
  revoked: seldom(false, true),
  limits: fc.oneof({ weight: 1, arbitrary: fc.constant(0) }, { weight: 1, arbitrary: fc.nat({ max: 63 }) }),
  quota: fc.option(fc.nat({ max: 3 }), { nil: undefined, freq: 1 }),
  pool: fc.constantFrom(undefined, undefined, "default", "p 1", "p 2"),
  credential: fc.constantFrom(undefined, undefined, "key_1", "key_2"),
  versionOffset: fc.constantFrom(0, 0, 0, 0, 0, 0, -1, 1),
  change: fc.record(changes),
  entry: fc.constantFrom<NewEntry["kind"]>(
    "result",
    "result",
    "result",
    "decision",
    "cancel",
    "timer",
    "retry",
    "dispatch",
    "dispatch",
  ),
  proposes: fc.constantFrom(false, false, true),
  whenBusy: seldom<"append" | "refuse">("append", "refuse"),
  consumed: fc.nat({ max: 3 }),
  stranger: seldom(false, true, 10),
  inbox: seldom(false, true, 3),
  page: fc.integer({ min: 1, max: 4 }),
  gates: fc.option(fc.nat({ max: 255 }), { nil: undefined, freq: 1 }),
  plan: fc.constant<GatesChoice | undefined>(undefined),
  twice: fc.boolean(),
};

/** Few runs, and those who own them: children are started, end and are cancelled, and what failed is opened again. */
const treeChoices: typeof choices = {
  ...choices,
  tenant: fc.constant(0),
  run: seldom(0, 1),
  generation: fc.constantFrom(0, 0, 1, 1, 2),
  lock: fc.constant(1),
  gates: fc.constant(undefined),
  ttl: fc.constant<Ttl>("long"),
  limit: fc.option(fc.integer({ min: 1, max: 2 }), { nil: undefined }),
  strategy: fc.constant(undefined),
  stopped: seldom(false, true, 20),
  revoked: fc.constant(false),
  versionOffset: seldom(0, 1, 20),
  change: fc.record(treeChanges),
  entry: fc.constantFrom<NewEntry["kind"]>("result", "retry", "retry", "cancel"),
  consumed: fc.constantFrom(0, 2, 3),
  stranger: seldom(false, true, 30),
};

/** One run whose jobs are mostly held, and those who ask about them: a few jobs, and the latest verdicts. */
const heldChoices: typeof choices = {
  ...treeChoices,
  generation: fc.constant(0),
  pick: fc.nat({ max: 1 }),
  token: seldom(0, 1),
  lock: fc.constantFrom(3, 3, 3, 1),
  queues: fc.constant(false),
  limit: fc.constant(undefined),
  stopped: seldom(false, true, 4),
  change: fc.record({
    ...changes,
    status: goingOn,
    held: seldom(true, false),
    releasesJobs: seldom(false, true, 2),
    voidsJob: seldom(false, true, 8),
    children: fc.constant(0),
    approval: fc.constant("none" as const),
  }),
  entry: seldom<NewEntry["kind"]>("dispatch", "result", 5),
  proposes: fc.boolean(),
  stranger: seldom(false, true, 8),
};

/** One run that fails again and again and is mended each time, by two letters; nobody but its owners disturbs it. */
const repairChoices: typeof choices = {
  ...treeChoices,
  run: fc.constant(0),
  generation: fc.constantFrom(0, 0, 0, 1),
  pick: fc.nat({ max: 3 }),
  queues: fc.constant(false),
  limit: fc.constantFrom(undefined, undefined, 1),
  stopped: seldom(false, true, 30),
  change: fc.record({
    ...treeChanges,
    status: fc.constantFrom<RunStatus>("running", "waiting", "failed", "failed", "timed_out"),
    letter: fc.constant(true),
    children: fc.constantFrom(0, 0, 1),
    approval: fc.constant("none" as const),
  }),
  entry: fc.oneof(
    { weight: 8, arbitrary: fc.constantFrom<NewEntry["kind"]>("retry", "retry", "result") },
    { weight: 1, arbitrary: fc.constant<NewEntry["kind"]>("cancel") },
  ),
  whenBusy: seldom<"append" | "refuse">("append", "refuse", 12),
  consumed: fc.nat({ max: 2 }),
};

/** Every sequence begins with an admission at least, so that there is something to work on. */
export function sequencesOf(
  choice: typeof choices,
  amounts: Partial<Record<OperationName, number>>,
  beginning: readonly OperationName[] = ["admit"],
): fc.Arbitrary<readonly Command[]> {
  const first = beginning.map((name) => fc.record({ ...choice, name: fc.constant(name) }));
  const later: fc.Arbitrary<Command[]> = fc.array(
    fc.oneof(
      { weight: 40, arbitrary: fc.record({ ...choice, name: chosenFrom(amounts) }) },
      { weight: 4, arbitrary: fc.record({ kind: fc.constant("again" as const), back: fc.nat({ max: 12 }) }) },
      { weight: 1, arbitrary: fc.constant({ kind: "wait" } as const) },
    ),
    { minLength: 10, maxLength: 60, size: "max" },
  );
  return fc.tuple(fc.tuple(...first), later).map(([some, others]) => [...some, ...others]);
}

export const sequences = sequencesOf(choices, weights);

export const treeSequences = sequencesOf(treeChoices, treeWeights);

export const heldSequences = sequencesOf(heldChoices, heldWeights);

export const repairSequences = sequencesOf(repairChoices, repairWeights);
