// The grid of --sweep: how long the lock may be waited for, by how long clients go on trying.
import type { Stage } from "../drill.ts";
import { openTarget } from "../target/open-target.ts";
import type { Target } from "../target/target.ts";
import { type BurstContext, type Measured, measure, openVariant } from "./measure.ts";
import type { Plan } from "./plan.ts";

export type Cell = {
  /** Absent: as the deployment has it. */
  readonly waitMs?: number;
  readonly budgetMs: number;
  readonly measured: Measured;
};

/** The variant whose wait budget matters, as it is by default. */
const variant = "lock-jitter";

export async function sweep(stage: Stage, crowds: BurstContext["crowds"], plan: Plan): Promise<Cell[]> {
  const { kind } = stage.target;
  const { waitsMs, budgetsMs } = plan.sweep ?? { waitsMs: [], budgetsMs: [] };
  if (kind === "deployment") return rowOf(stage, stage.target, { crowds, plan, budgetsMs });
  const cells: Cell[] = [];
  for (const waitMs of waitsMs) {
    // How long to wait is a setting of the process: an instance for each.
    const settings = () => ({ "locks.admission.waitMs": waitMs });
    const target = await openTarget({ kind }, { kind: "inside", settings }, stage.size);
    try {
      cells.push(...(await rowOf(stage, target, { crowds, plan, budgetsMs, waitMs })));
    } finally {
      await target.close();
    }
  }
  return cells;
}

type Row = {
  readonly crowds: BurstContext["crowds"];
  readonly plan: Plan;
  readonly budgetsMs: readonly number[];
  readonly waitMs?: number;
};

async function rowOf(
  { signal, progress }: Stage,
  target: Target,
  { crowds, plan, budgetsMs, waitMs }: Row,
): Promise<Cell[]> {
  const tenant = await openVariant(target, variant);
  const cells: Cell[] = [];
  for (const budgetMs of budgetsMs) {
    progress(`sweep: wait budget ${waitMs ?? "as deployed"}, client budget ${budgetMs} ms`);
    const terms = { ...plan.clients, budgetMs };
    const wanted = { variant, policy: "jitter", clients: plan.requests, terms } as const;
    const measured = await measure({ target, crowds, signal }, tenant, wanted);
    cells.push({ ...(waitMs === undefined ? {} : { waitMs }), budgetMs, measured });
  }
  return cells;
}
