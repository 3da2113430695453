// Reads a run for people: its steps without the items of its lists, which are read page by page.
import { itemId } from "../../domain/engine/instances.ts";
import { inputRecordKey, runRecordKey, stepRecordKey } from "../../domain/engine/keys.ts";
import { readRunState, readStepRecord } from "../../domain/engine/records.ts";
import type { RunHeader, RunId, RunRecord } from "../../domain/run.ts";
import type { TenantId } from "../../domain/tenant.ts";
import type { CompiledDefinition } from "../../domain/workflow/compiled.ts";
import { askUntilKnown } from "../ask-until-known.ts";
import type { RunDetails, Trouble } from "../control-api.ts";
import { type Engine, storeLimits } from "../engine/engine.ts";

export type LoadedRun = {
  readonly kind: "run";
  readonly header: RunHeader;
  readonly records: readonly RunRecord[];
};
type Missing = { readonly kind: "not_found" } | Trouble;

/** Without `records` all of them: only for runs that are known to be small. */
export async function loadRun(
  { ports, config }: Engine,
  tenant: TenantId,
  runId: RunId,
  records?: readonly string[],
): Promise<LoadedRun | Missing> {
  const request = { tenant, runId, ...(records === undefined ? {} : { records }) };
  const answer = await askUntilKnown(ports, "loadRun", storeLimits(config), (deadlineMs) =>
    ports.store.loadRun(request, { deadlineMs }),
  );
  if (answer.kind === "run" || answer.kind === "not_found") return answer;
  return { kind: answer.kind, cause: answer.cause };
}

export async function getRun(
  engine: Engine,
  tenant: TenantId,
  runId: RunId,
): Promise<{ readonly kind: "run"; readonly run: RunDetails } | Missing> {
  const first = await loadRun(engine, tenant, runId, [runRecordKey]);
  if (first.kind !== "run") return first;
  const pinned = await engine.definitions.pinned(tenant, first.header.definition);
  if (pinned.kind === "unknown" || pinned.kind === "unavailable") return pinned;
  const definition = pinned.kind === "compiled" ? pinned.definition : undefined;
  const whole =
    definition !== undefined && hasItems(first)
      ? await loadSteps(engine, first.header, definition)
      : await loadRun(engine, tenant, runId);
  if (whole.kind !== "run") return whole;
  return { kind: "run", run: { header: whole.header, records: whole.records, definition } };
}

/** A list of ten thousand items has as many records and more: nobody wants them all at once. */
function hasItems({ records }: LoadedRun): boolean {
  const [run] = records;
  return run !== undefined && readRunState(run.body).items !== undefined;
}

async function loadSteps(
  engine: Engine,
  { tenant, runId }: RunHeader,
  definition: CompiledDefinition,
): Promise<LoadedRun | Missing> {
  const keys = [...definition.steps.keys()].map(stepRecordKey);
  const steps = await loadRun(engine, tenant, runId, [inputRecordKey, runRecordKey, ...keys]);
  if (steps.kind !== "run") return steps;
  const payloads = steps.records.flatMap(({ key, body }) => {
    if (!key.startsWith("step/")) return [];
    const { outputKey, errorKey } = readStepRecord(body);
    return [outputKey, errorKey].filter((name) => name !== undefined);
  });
  if (payloads.length === 0) return steps;
  const rest = await loadRun(engine, tenant, runId, payloads);
  return rest.kind === "run" ? { ...steps, records: [...steps.records, ...rest.records] } : rest;
}

export type ItemsPage = { readonly after: number; readonly limit: number };

export type ItemsAnswer =
  | {
      readonly kind: "items";
      readonly run: RunDetails;
      /** Ids of the items on this page. */
      readonly ids: readonly string[];
      readonly total: number;
    }
  /** There is no such run, no such step, or the step has no items. */
  | { readonly kind: "not_found"; readonly what: "run" | "step" }
  | Trouble;

/** The items of one `for_each`, in their order. */
export async function listItems(
  engine: Engine,
  tenant: TenantId,
  runId: RunId,
  step: string,
  { after, limit }: ItemsPage,
): Promise<ItemsAnswer> {
  const first = await loadRun(engine, tenant, runId, [runRecordKey, stepRecordKey(step)]);
  if (first.kind === "not_found") return { kind: "not_found", what: "run" };
  if (first.kind !== "run") return first;
  const pinned = await engine.definitions.pinned(tenant, first.header.definition);
  if (pinned.kind === "unknown" || pinned.kind === "unavailable") return pinned;
  const definition = pinned.kind === "compiled" ? pinned.definition : undefined;
  if (definition?.steps.get(step)?.forEach === undefined) return { kind: "not_found", what: "step" };
  const record = first.records.find(({ key }) => key === stepRecordKey(step));
  const total = record === undefined ? 0 : (readStepRecord(record.body).children?.total ?? 0);
  const end = Math.min(total, after + limit);
  const ids = Array.from({ length: Math.max(0, end - after) }, (_, index) => itemId(step, after + index));
  const items = await loadRun(engine, tenant, runId, [runRecordKey, ...ids.map(stepRecordKey)]);
  if (items.kind === "not_found") return { kind: "not_found", what: "run" };
  if (items.kind !== "run") return items;
  const payloads = items.records.flatMap(({ key, body }) => {
    const { outputKey, errorKey } = key === runRecordKey ? {} : readStepRecord(body);
    return [outputKey, errorKey].filter((name) => name !== undefined);
  });
  const rest = payloads.length === 0 ? items : await loadRun(engine, tenant, runId, payloads);
  if (rest.kind === "not_found") return { kind: "not_found", what: "run" };
  if (rest.kind !== "run") return rest;
  const records = payloads.length === 0 ? items.records : [...items.records, ...rest.records];
  return { kind: "items", run: { header: items.header, records, definition }, ids, total };
}
