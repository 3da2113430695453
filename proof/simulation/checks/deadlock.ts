// Runs that wait for each other: a tenant at its limit whose parked run needs a child, which needs a slot (INV-28).
import { isTerminal } from "../../../src/domain/run.ts";
import { Violation } from "../invariants/violation.ts";
import type { World } from "../world.ts";
import type { KnownRun } from "./known-state.ts";

/** Said of a run that did not end by itself, when nothing but the limit can have kept it from going on. */
export function whyDeadlocked({ known }: World, run: KnownRun): Violation | undefined {
  const { settings, active } = known.tenant(run.tenant);
  const limit = settings.maxConcurrentRuns;
  if (limit === undefined || active.size < limit) return undefined;
  const child =
    run.parent === undefined ? known.childrenOf(run.runId).find(({ status }) => !isTerminal(status)) : run;
  if (child === undefined) return undefined;
  return new Violation(
    "INV-28",
    `${child.runId} is ${child.status}, its parent waits for it, and the ${limit} slots of ${run.tenant} are taken for ever`,
  );
}
