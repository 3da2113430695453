// Finds the open steps of a run and what belongs to them, with a bounded number of reads however large the run is.
import { type BudgetId, ledgerId, periodAt, readBudgetId } from "../../domain/budgets.ts";
import { errorOf } from "../../domain/dead-letter.ts";
import { approvalIdOf, resultKey, stepRecordKey } from "../../domain/engine/keys.ts";
import {
  isOpen,
  openCount,
  readError,
  readStepRecord,
  type StepRecord,
} from "../../domain/engine/records.ts";
import { makeJobId } from "../../domain/job.ts";
import type { RunId } from "../../domain/run.ts";
import { chooseSteps, itemsMax, type OpenStep } from "../../domain/why/explain-run.ts";
import type { LedgerFacts, Part, StepFacts } from "../../domain/why/explanation.ts";
import type { CompiledDefinition } from "../../domain/workflow/compiled.ts";
import type { Engine } from "../engine/engine.ts";
import type { SeenRun } from "./explain-run.ts";

type GatheredSteps = {
  readonly steps: readonly StepFacts[];
  /** What the store did not answer, in words. */
  readonly unanswered: readonly string[];
};

/** Step records read at once. */
const chunk = 250;

/** Items of a for_each that are looked at: the first and the last that have begun. Others are only counted. */
const itemsLookedAt = 64;

export async function gatherSteps(engine: Engine, seen: SeenRun): Promise<GatheredSteps> {
  const { tenant, header, run } = seen;
  if (run === undefined || openCount(run) === 0) return { steps: [], unanswered: [] };
  const pinned = await engine.definitions.pinned(tenant, header.definition);
  if (pinned.kind !== "compiled") return { steps: [], unanswered: ["the workflow's definition"] };
  const found = await findOpen(engine, seen, pinned.definition);
  const items = await findItems(engine, seen, found.steps, pinned.definition);
  const chosen = chooseSteps([...found.steps, ...items.steps], itemsMax);
  const steps = await Promise.all(chosen.map((step) => withItsParts(engine, seen, step)));
  return { steps, unanswered: [...new Set([...found.unanswered, ...items.unanswered])] };
}

type Found = { readonly steps: readonly OpenStep[]; readonly unanswered: readonly string[] };

/** Looks until as many open steps are found as the run counts. */
async function findOpen(engine: Engine, seen: SeenRun, definition: CompiledDefinition): Promise<Found> {
  const ids = [...definition.steps.keys()];
  const open: OpenStep[] = [];
  const wanted = seen.run === undefined ? 0 : openCount(seen.run);
  for (let from = 0; from < ids.length && open.length < wanted; from += chunk) {
    const records = await readSteps(engine, seen, ids.slice(from, from + chunk));
    if (records.kind !== "known") return { steps: open, unanswered: ["its steps"] };
    open.push(...records.value.filter(({ record }) => isOpen(record)));
  }
  return { steps: open, unanswered: [] };
}

/** A parallel's or loop's parts are steps of their own; a for_each's items are not in the definition. */
async function findItems(
  engine: Engine,
  seen: SeenRun,
  steps: readonly OpenStep[],
  definition: CompiledDefinition,
): Promise<Found> {
  const spread = steps.filter(({ stepId }) => definition.steps.get(stepId)?.forEach !== undefined);
  const ids = spread.slice(0, itemsMax).flatMap(({ stepId, record }) => itemIds(stepId, record));
  if (ids.length === 0) return { steps: [], unanswered: [] };
  const records = await readSteps(engine, seen, ids.slice(0, chunk));
  if (records.kind !== "known") return { steps: [], unanswered: ["the items of its for_each steps"] };
  return { steps: records.value.filter(({ record }) => isOpen(record)), unanswered: [] };
}

function itemIds(stepId: string, { children }: StepRecord): readonly string[] {
  const begun = children?.next ?? 0;
  const half = itemsLookedAt / 2;
  const first = Array.from({ length: Math.min(begun, half) }, (_, index) => index);
  const last = Array.from({ length: Math.min(begun, half) }, (_, index) => begun - 1 - index);
  return [...new Set([...first, ...last])].map((index) => `${stepId}[${index}]`);
}

async function readSteps(
  { ports, config }: Engine,
  { tenant, header: { runId } }: SeenRun,
  ids: readonly string[],
): Promise<Part<readonly OpenStep[]>> {
  const deadlineMs = config["store.callTimeoutMs"];
  const answer = await ports.store.loadRun(
    { tenant, runId, records: ids.map(stepRecordKey) },
    { deadlineMs },
  );
  if (answer.kind !== "run") return { kind: answer.kind === "not_found" ? "absent" : "unanswered" };
  const bodies = new Map(answer.records.map(({ key, body }) => [key, body]));
  const steps = ids.flatMap((stepId) => {
    const body = bodies.get(stepRecordKey(stepId));
    return body === undefined ? [] : [{ stepId, record: readStepRecord(body) }];
  });
  return { kind: "known", value: steps };
}

async function withItsParts(engine: Engine, seen: SeenRun, { stepId, record }: OpenStep): Promise<StepFacts> {
  const { store } = engine.ports;
  const deadlineMs = engine.config["store.callTimeoutMs"];
  const { tenant } = seen;
  const { runId } = seen.header;
  const name = { step: stepId, attempt: record.attempt };
  const facts = { stepId, record };
  const { waitingFor = "job" } = record;
  switch (waitingFor) {
    case "approval": {
      const approvalId = approvalIdOf(runId, name);
      const answer = await store.getApproval({ tenant, approvalId }, { deadlineMs });
      return { ...facts, approval: partOf(answer, answer.kind === "approval" ? answer.approval : undefined) };
    }
    case "retry":
      return { ...facts, ...(await lastError(engine, seen, name)) };
    case "child_run":
      return record.childRunId === undefined
        ? facts
        : { ...facts, childRun: await readChild(engine, seen, record.childRunId) };
    case "delay":
    case "children":
      return facts;
    case "job": {
      const jobId = makeJobId({ runId, ...name });
      const answer = await store.getJob({ tenant, jobId }, { deadlineMs });
      const job = partOf(answer, answer.kind === "job" ? answer.job : undefined);
      if (answer.kind === "job" && answer.job.parkedFor !== undefined)
        return { ...facts, job, ledger: await readLedger(engine, seen, answer.job.parkedFor) };
      if (answer.kind !== "job" || answer.job.state !== "held") return { ...facts, job };
      const lock = await store.inspectLock(
        { tenant, lock: { namespace: "job", name: jobId } },
        { deadlineMs },
      );
      const isKnown = lock.kind === "held" || lock.kind === "free";
      return { ...facts, job, jobLock: partOf(lock, isKnown ? lock : undefined) };
    }
  }
}

/** Of the present period; a budget of which nothing was claimed yet has none. */
async function readLedger(
  { ports, config }: Engine,
  { tenant, nowMs }: SeenRun,
  budget: BudgetId,
): Promise<Part<LedgerFacts>> {
  const { per } = readBudgetId(budget) ?? {};
  if (per === undefined) return { kind: "absent" };
  const { startMs } = periodAt(per, nowMs);
  const asked = { tenant, after: ledgerId(budget, startMs - 1), limit: 1 };
  const answer = await ports.store.listLedgers(asked, { deadlineMs: config["store.callTimeoutMs"] });
  if (answer.kind !== "listed") return { kind: "unanswered" };
  const found = answer.ledgers.find(({ ledger }) => ledger === ledgerId(budget, startMs));
  return found === undefined ? { kind: "absent" } : { kind: "known", value: found };
}

function partOf<Value>(answer: { readonly kind: string }, value: Value | undefined): Part<Value> {
  if (value !== undefined) return { kind: "known", value };
  return { kind: answer.kind === "not_found" ? "absent" : "unanswered" };
}

/** A step that timed out has left no error; one whose error cannot be read is explained without it. */
async function lastError(
  { ports, config }: Engine,
  { tenant, header: { runId } }: SeenRun,
  name: { readonly step: string; readonly attempt: number },
) {
  const deadlineMs = config["store.callTimeoutMs"];
  const answer = await ports.store.loadRun({ tenant, runId, records: [resultKey(name)] }, { deadlineMs });
  const body = answer.kind === "run" ? answer.records[0]?.body : undefined;
  const error = body === undefined ? undefined : errorOf(readError(body));
  return error === undefined ? {} : { lastError: error };
}

async function readChild({ ports, config }: Engine, { tenant }: SeenRun, runId: RunId) {
  const deadlineMs = config["store.callTimeoutMs"];
  const answer = await ports.store.loadRun({ tenant, runId, records: [] }, { deadlineMs });
  return { runId, header: partOf(answer, answer.kind === "run" ? answer.header : undefined) };
}
