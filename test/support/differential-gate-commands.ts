// The random commands of the differential test about gates and queues: few places, and runs that wait for them.
import fc from "fast-check";
import { type AtLimit, atLimitChoices } from "../../src/domain/gates.ts";
import type { NewEntry } from "../../src/domain/inbox.ts";
import type { RunStatus } from "../../src/domain/run.ts";
import type { OperationName } from "../../src/ports/store.ts";
import { type Command, changes, choices, seldom, sequencesOf, type Ttl } from "./differential-commands.ts";

/** Of gates: starts, ends and cancels of a few runs, moves, limits that change, and what shows it. */
const gateWeights: Partial<Record<OperationName, number>> = {
  acquireLock: 8,
  setTenant: 6,
  admit: 40,
  createRun: 2,
  loadRun: 2,
  listRuns: 2,
  deleteRun: 1,
  deliver: 18,
  takeRun: 8,
  commit: 22,
  putDocument: 6,
  removeDocument: 1,
  handOn: 8,
  listGates: 4,
  inspectGate: 8,
  moveQueued: 8,
  countUsage: 2,
  findDue: 3,
  sweep: 4,
  listActive: 2,
  readEvents: 3,
};

/** Of queues: runs that start, wait, are moved, cancelled and ended, limits that change, and what shows all that. */
const queueWeights: Partial<Record<OperationName, number>> = {
  admit: 40,
  createRun: 1,
  acquireLock: 4,
  takeRun: 16,
  commit: 40,
  deliver: 12,
  sweep: 8,
  setTenant: 6,
  putDocument: 6,
  removeDocument: 1,
  handOn: 5,
  listGates: 4,
  inspectGate: 10,
  moveQueued: 6,
  loadRun: 6,
  listRuns: 2,
  listActive: 3,
  countActive: 1,
  countUsage: 2,
  deleteRun: 1,
  inspectReservation: 2,
  readTimeline: 2,
  readEvents: 5,
  findDue: 2,
};

/** Starts that wait for each other, and ends that hand on. */
const gateChoices: typeof choices = {
  ...choices,
  run: fc.constantFrom(0, 1, 2),
  generation: fc.constant(0),
  lock: fc.constant(1),
  queues: fc.constant(false),
  limit: fc.constantFrom(undefined, 1, 1, 1, 1, 2),
  stopped: seldom(false, true, 20),
  quota: fc.constantFrom(undefined, undefined, undefined, undefined, undefined, 3),
  ttl: seldom<Ttl>("long", "short", 20),
  versionOffset: seldom(0, 1, 20),
  change: fc.record({
    ...changes,
    status: fc.constantFrom<RunStatus>("running", "waiting", "waiting", "succeeded", "succeeded", "failed"),
    jobs: fc.constant(0),
    timers: fc.constantFrom(0, 1, 3),
    timersDue: fc.constant(true),
    children: fc.constantFrom(0, 0, 0, 1),
    approval: fc.constant("none" as const),
  }),
  entry: fc.constantFrom<NewEntry["kind"]>("cancel", "cancel", "timer", "timer", "retry"),
  consumed: fc.constantFrom(0, 2, 3),
  inbox: seldom(true, false),
  stranger: seldom(false, true, 30),
  gates: fc.option(fc.nat({ max: 255 }), { nil: undefined, freq: 8 }),
};

const atLimit = fc.oneof(
  { weight: 6, arbitrary: fc.constant<AtLimit>("queue") },
  { weight: 1, arbitrary: fc.constantFrom<AtLimit>(...atLimitChoices) },
);

/** Eight runs of two workflows that share few gates, most of them full. */
const queueChoices: typeof choices = {
  ...choices,
  tenant: fc.constant(0),
  run: fc.nat({ max: 7 }),
  generation: fc.constant(0),
  lock: fc.constant(1),
  queues: fc.constant(false),
  key: fc.option(fc.nat({ max: 2 }), { nil: undefined, freq: 1 }),
  ttl: fc.constant<Ttl>("long"),
  limit: fc.option(fc.integer({ min: 1, max: 3 }), { nil: undefined, freq: 6 }),
  strategy: fc.constant(undefined),
  stopped: seldom(false, true, 8),
  revoked: fc.constant(false),
  credential: fc.constant(undefined),
  quota: fc.constant(undefined),
  versionOffset: seldom(0, 1, 30),
  change: fc.record({
    ...changes,
    status: fc.constantFrom<RunStatus>("running", "waiting", "waiting", "succeeded", "failed", "cancelled"),
    jobs: fc.constant(0),
    approval: fc.constant("none" as const),
    children: fc.constantFrom(0, 0, 0, 1),
    timers: fc.constantFrom(0, 1, 3),
    timersDue: fc.constant(true),
  }),
  gates: fc.constant(undefined),
  plan: fc.record({
    mask: fc.nat({ max: 15 }),
    atLimits: fc.array(atLimit, { minLength: 5, maxLength: 5 }),
    priority: fc.constantFrom(5, 5, 5, 0, 7, 9),
    fairnessKey: fc.constantFrom("-", "a", "b"),
    weight: fc.constantFrom(1, 1, 2, 7),
    releases: fc.boolean(),
    queueMax: fc.constantFrom(10, 10, 10, 2),
    deadline: seldom<Ttl>("long", "short"),
    max: fc.option(fc.integer({ min: 1, max: 2 }), { nil: undefined, freq: 6 }),
  }),
  entry: fc.constantFrom<NewEntry["kind"]>("cancel", "timer", "timer", "retry"),
  consumed: fc.constantFrom(3, 3, 0),
  stranger: seldom(false, true, 30),
  inbox: seldom(true, false),
};

const withLimits = fc.record({
  ...queueChoices,
  limit: fc.integer({ min: 1, max: 3 }),
  stopped: fc.constant(false),
  stranger: fc.constant(false),
  lock: fc.constant(1),
  inbox: fc.constant(false),
  proposes: fc.constant(false),
  plan: queueChoices.plan.map((plan) => plan && { ...plan, max: plan.max ?? 2 }),
});

/** They begin with limits of all gates. */
export const queueSequences: fc.Arbitrary<readonly Command[]> = fc
  .tuple(
    withLimits.map((each) => ({ ...each, name: "setTenant" as const })),
    withLimits.map((each) => ({ ...each, name: "putDocument" as const, pick: 0 })),
    withLimits.map((each) => ({ ...each, name: "putDocument" as const, pick: 1 })),
    sequencesOf(queueChoices, queueWeights),
  )
  .map(([tenant, first, second, others]) => [tenant, first, second, ...others]);

export const gateSequences = sequencesOf(gateChoices, gateWeights, [
  ...(["setTenant", "putDocument", "putDocument", "admit", "admit", "admit"] as const),
]);
