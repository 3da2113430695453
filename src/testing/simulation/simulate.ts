// One seed from its first draw to the last check.
import { startChaos } from "./chaos.ts";
import type { Marks } from "./marks.ts";
import { healAndCheck } from "./quiescence.ts";
import { mustHold, Violation } from "./violation.ts";
import { createWorld, type WorldOptions } from "./world.ts";

export type SeedReport = {
  readonly seed: number;
  /** The same for every run of this seed. */
  readonly hash: string;
  readonly events: number;
  readonly virtualMs: number;
  readonly marks: Marks;
  readonly violation?: { readonly invariant: string; readonly what: string; readonly atMs: number };
};

/** Far more than any seed needs: what it stops are loops without an end. */
const eventsMax = 500_000;

export async function simulateSeed(seed: number, options: WorldOptions = {}): Promise<SeedReport> {
  const world = createWorld(seed, options);
  const { kernel, swarm, marks } = world;
  const violation = await violationOf(async () => {
    startChaos(world);
    const end = await kernel.run({ untilMs: swarm.chaosMs, eventsMax });
    mustHold(end.kind === "time_reached", "liveness", () => `${end.kind} before the chaos was over`);
    await healAndCheck(world);
  });
  const measured = { hash: kernel.traceHash(), events: kernel.events(), virtualMs: kernel.nowMs() };
  if (violation === undefined) return { seed, ...measured, marks };
  return { seed, ...measured, marks, violation: { ...violation, atMs: kernel.nowMs() } };
}

async function violationOf(
  simulation: () => Promise<void>,
): Promise<{ readonly invariant: string; readonly what: string } | undefined> {
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
