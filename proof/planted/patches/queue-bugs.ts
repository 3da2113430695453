// Text patches of what stands above the store where runs wait: plans, runs that are woken, priorities, settings and answers.
import type { TextPatch } from "../planted-bug.ts";

const plans = "test/unit/plan-gates.test.ts";
const flows = "test/unit/flow-queues.test.ts";
const steered = "test/unit/flow-queues-steered.test.ts";

export const plantedQueueBugs: readonly TextPatch[] = [
  bug(
    "places-as-written",
    "places are taken in the order in which a workflow names its gates: two workflows wait for each other",
    "src/domain/plan-gates.ts",
    `(one.gate < other.gate ? -1 : 1)`,
    `(one.gate < other.gate ? 0 : 0)`,
    [plans, flows],
  ),
  bug(
    "priority-beyond-the-key",
    "a start has the priority that it asks for, whatever its API key allows",
    "src/domain/plan-gates.ts",
    `Math.min(priority, asked.priorityMax ?? prioritiesMax)`,
    `priority`,
    [plans],
  ),
  bug(
    "empty-key-for-a-missing-one",
    "an expression that gives nothing is the empty key: runs without a customer share one gate",
    "src/domain/plan-gates.ts",
    `    if (evaluation.kind === "value") return evaluation.value;`,
    `    if (evaluation.kind === "value") return evaluation.value;
    if (evaluation.kind === "nothing") return "";`,
    [plans, flows],
  ),
  bug(
    "granted-run-left-to-the-sweep",
    "a run that gets a place begins when a sweep finds it",
    "src/control/engine/engine.ts",
    `if ("tenant" in request && (answer.kind === "queued" || "woken" in answer))`,
    `if ("tenant" in request && answer.kind === "queued")`,
    [flows],
  ),
  bug(
    "gates-left-alone",
    "the sweep passes over gates that have free places after a limit was raised",
    "src/control/sweeper.ts",
    `of answer.gates) {`,
    `of answer.gates.slice(0, 0)) {`,
    [flows, steered],
  ),
  bug(
    "handed-on-once",
    "of the runs that a raised limit lets through only those of one operation begin at once",
    "src/control/sweeper.ts",
    `if (answer.kind !== "handed_on" || !answer.more) return;`,
    `if (answer.kind !== "handed_on" || answer.woken.length >= 0) return;`,
    [steered],
  ),
  bug(
    "gates-under-a-lock",
    "a run with gates is started by the strategy of its tenant: under the lock it is refused where it would wait",
    "src/control/admission/start-run.ts",
    `isAtomic(run, settings) ? "atomic" : assigned.policies["admission.strategy"];`,
    `assigned.policies["admission.strategy"];`,
    [flows],
  ),
  bug(
    "timeout-counts-the-wait",
    "the workflow's timeout counts from the start of a run that waits",
    "src/domain/engine/apply-entry.ts",
    `known === undefined || known.mayWait === true ? draft.nowMs`,
    `known === undefined ? draft.nowMs`,
    [flows],
  ),
  bug(
    "unset-gate-saved",
    "a workflow may name a shared gate that nobody has set: it lets everybody through",
    "src/control/workflows/workflows.ts",
    `if (Object.hasOwn(gates, name)) return [];`,
    `if (Object.hasOwn(gates, name) || name !== "") return [];`,
    [flows],
  ),
  bug(
    "limits-not-saved",
    "a workflow is saved without the limits of its gates",
    "src/control/workflows/workflows.ts",
    `(collection === "workflow" ? { limits } : {})`,
    `(collection === "workflow" && id === "" ? { limits } : {})`,
    [flows],
  ),
  bug(
    "removed-tenant-keeps-its-queue",
    "a tenant is removed, and what waits in it waits on",
    "src/control/tenants/remove-tenant.ts",
    `await endQueued(engine, { tenant, actor });`,
    `({ kind: "ended" }) as Awaited<ReturnType<typeof endQueued>>;`,
    [steered],
  ),
];

function bug(
  name: string,
  what: string,
  file: string,
  find: string,
  replace: string,
  tests: readonly string[],
): TextPatch {
  return { name, what, edits: [{ file, find, replace }], tests };
}
