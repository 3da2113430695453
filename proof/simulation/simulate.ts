// One seed from its first draw to the last check.
import { besideSqlite } from "./beside-sqlite.ts";
import { startChaos } from "./chaos.ts";
import type { InvariantName } from "./invariants/invariants.ts";
import type { Mark } from "./invariants/marks.ts";
import { mustHold, Violation } from "./invariants/violation.ts";
import { type Difference, simulateIsolation } from "./isolation.ts";
import { healAndCheck } from "./quiescence.ts";
import { createWorld, type WorldOptions } from "./world.ts";

/** Plain data: it also comes from other processes. */
export type SeedReport = {
  readonly seed: number;
  /** The same for every run of this seed. */
  readonly hash: string;
  readonly events: number;
  readonly virtualMs: number;
  /** Performed by the store, repeated ones included. */
  readonly operations: number;
  /** Faults that hit, by kind. */
  readonly faults: Readonly<Record<string, number>>;
  readonly marks: Readonly<Partial<Record<Mark, number>>>;
  readonly violation?: BrokenInvariant;
};

export type BrokenInvariant = {
  readonly invariant: InvariantName;
  readonly what: string;
  readonly atMs: number;
  /** The number of the event in which it was found. */
  readonly event: number;
};

/** Far more than any seed needs: what it stops are loops without an end. */
const eventsMax = 500_000;

type SeedOptions = WorldOptions & {
  /** On `sqlite` every call is performed by the real SQLite store, too, and both must agree. */
  readonly store?: StoreChoice;
  /** The seed is one tenant's day, run twice, and what it was answered must not differ. */
  readonly compare?: Difference;
};

export type StoreChoice = "memory" | "sqlite";

export async function simulateSeed(seed: number, options: SeedOptions = {}): Promise<SeedReport> {
  const { bug, compare = bug?.compares } = options;
  if (compare !== undefined) return (await simulateIsolation(seed, compare, options)).report;
  const wrapDatabase = bug?.wrapDatabase;
  // A mistake in how the file is used shows only there.
  const { store = wrapDatabase === undefined ? "memory" : "sqlite" } = options;
  if (store === "memory") return simulate(seed, options);
  const { parts, close } = await besideSqlite(wrapDatabase);
  try {
    return await simulate(seed, { ...options, parts });
  } finally {
    close();
  }
}

async function simulate(seed: number, options: WorldOptions): Promise<SeedReport> {
  const world = createWorld(seed, options);
  const { kernel, swarm, marks } = world;
  const violation = await violationOf(async () => {
    startChaos(world);
    const end = await kernel.run({ untilMs: swarm.chaosMs, eventsMax });
    mustHold(end.kind === "time_reached", "liveness", () => `${end.kind} before the chaos was over`);
    await healAndCheck(world);
    options.parts?.lastCheck?.();
  });
  const measured = {
    hash: kernel.traceHash(),
    events: kernel.events(),
    virtualMs: kernel.nowMs(),
    operations: world.operations(),
    faults: world.faults.byKind(),
    marks: marks.counts(),
  };
  if (violation === undefined) return { seed, ...measured };
  return { seed, ...measured, violation: { ...violation, atMs: kernel.nowMs(), event: kernel.events() } };
}

async function violationOf(
  simulation: () => Promise<void>,
): Promise<Pick<BrokenInvariant, "invariant" | "what"> | undefined> {
  try {
    await simulation();
    return undefined;
  } catch (error) {
    if (error instanceof Violation) return { invariant: error.invariant, what: error.message };
    // No flow may throw on what happens here: its error is a finding like any other.
    const what = error instanceof Error ? (error.stack ?? error.message) : String(error);
    return { invariant: "no exception", what };
  }
}
