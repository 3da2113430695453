// Reads a run for people: its steps without the items of its lists, which are read page by page.
import { payloadsPerRound, readingUnits } from "../../domain/engine/draft.ts";
import { inputRecordKey, itemId, runRecordKey, stepRecordKey } from "../../domain/engine/keys.ts";
import { readRunProgress, readStepRecord } from "../../domain/engine/records.ts";
import { digestOf } from "../../domain/fingerprint.ts";
import type { RunHeader, RunId, RunRecord, RunStatus } from "../../domain/run.ts";
import type { TenantId } from "../../domain/tenant.ts";
import type { CompiledDefinition } from "../../domain/workflow/compiled.ts";
import { ask } from "../ask-until-known.ts";
import type { Trouble } from "../caller.ts";
import type { Engine } from "../engine/engine.ts";

export const readFlows = { getRun, listItems, listRuns, lookUpKey, readTimeline };

type LoadedRun = {
  readonly kind: "run";
  readonly header: RunHeader;
  readonly records: readonly RunRecord[];
};
type Missing = { readonly kind: "run_not_found" } | Trouble;

export type RunDetails = {
  readonly header: RunHeader;
  readonly records: readonly RunRecord[];
  readonly definition: CompiledDefinition | undefined;
  /** Of a queued run, unless it is far behind or the store did not say. */
  readonly position?: number;
};

/** Without `records` all of them: only for runs that are known to be small. */
export async function loadRun(
  engine: Engine,
  tenant: TenantId,
  runId: RunId,
  records?: readonly string[],
): Promise<LoadedRun | Missing> {
  const request = { tenant, runId, ...(records === undefined ? {} : { records }) };
  const answer = await ask(engine, "loadRun", request);
  if (answer.kind === "run") return answer;
  if (answer.kind === "not_found") return { kind: "run_not_found" };
  return { kind: answer.kind, cause: answer.cause };
}

/** Without the items of its lists: those are read with `listItems`. */
async function getRun(
  engine: Engine,
  { tenant, runId }: { readonly tenant: TenantId; readonly runId: RunId },
): Promise<{ readonly kind: "run"; readonly run: RunDetails } | Missing> {
  const first = await loadRun(engine, tenant, runId, [runRecordKey]);
  if (first.kind !== "run") return first;
  const pinned = await engine.definitions.pinned(tenant, first.header.definition);
  if (pinned.kind === "unknown" || pinned.kind === "unavailable") return pinned;
  const definition = pinned.kind === "compiled" ? pinned.definition : undefined;
  const whole = isSmall(first, definition)
    ? withinReach(await loadRun(engine, tenant, runId))
    : await loadSteps(engine, first.header, definition);
  if (whole.kind !== "run") return whole;
  const { header, records } = whole;
  const position = await positionOf(engine, header);
  const run = { header, records, definition, ...(position === undefined ? {} : { position }) };
  return { kind: "run", run };
}

/** A run further behind gets no position: it would have changed by the time it is read. */
const positionMax = 100;

async function positionOf(engine: Engine, { tenant, runId, gates }: RunHeader): Promise<number | undefined> {
  const gate = gates?.waits === undefined ? undefined : gates.gates[gates.held]?.gate;
  if (gate === undefined) return undefined;
  const answer = await ask(engine, "inspectGate", { tenant, gate, limit: positionMax });
  const index = answer.kind === "gate" ? answer.queue.findIndex((queued) => queued.runId === runId) : -1;
  return index < 0 ? undefined : index + 1;
}

/** Steps, and commits so far, up to which all records of a run are read at once: one trip instead of two. */
const smallMax = 32;

/** A list of ten thousand items, or a loop of as many turns, has as many records and more: nobody wants them all at once. */
function isSmall({ header, records }: LoadedRun, definition: CompiledDefinition | undefined): boolean {
  const [run] = records;
  const hasItems = run !== undefined && readRunProgress(run.body).items !== undefined;
  return !hasItems && header.version <= smallMax && (definition?.steps.size ?? 0) <= smallMax;
}

/** What one answer shows of outputs: 25 ms to read, as long again to write. The others are marked as omitted. */
const shownUnitsMax = 500_000;

/** Without the payloads that nobody is shown. */
function withinReach(loaded: LoadedRun | Missing): LoadedRun | Missing {
  if (loaded.kind !== "run") return loaded;
  const payloads = new Set(payloadKeysOf(loaded.records));
  let units = 0;
  const records = loaded.records.filter(({ key, body }) => {
    if (!payloads.has(key)) return true;
    units += readingUnits(body);
    return units <= shownUnitsMax;
  });
  return { ...loaded, records };
}

/** Where the outputs and errors of steps are. */
function payloadKeysOf(records: readonly RunRecord[]): readonly string[] {
  return records.flatMap(({ key, body }) => {
    if (!key.startsWith("step/")) return [];
    const { outputKey, errorKey } = readStepRecord(body);
    return [outputKey, errorKey].filter((name) => name !== undefined);
  });
}

/** The records together with the payloads that they name, as many as are shown, a few in one trip. */
async function withPayloads(engine: Engine, loaded: LoadedRun): Promise<LoadedRun | Missing> {
  const { tenant, runId } = loaded.header;
  const keys = payloadKeysOf(loaded.records);
  const shown: RunRecord[] = [];
  let units = 0;
  for (let from = 0; from < keys.length && units <= shownUnitsMax; from += payloadsPerRound) {
    const some = await loadRun(engine, tenant, runId, keys.slice(from, from + payloadsPerRound));
    if (some.kind !== "run") return some;
    for (const record of some.records) {
      units += readingUnits(record.body);
      if (units <= shownUnitsMax) shown.push(record);
    }
  }
  return { ...loaded, records: [...loaded.records, ...shown] };
}

async function loadSteps(
  engine: Engine,
  { tenant, runId }: RunHeader,
  definition: CompiledDefinition | undefined,
): Promise<LoadedRun | Missing> {
  const keys = [...(definition?.steps.keys() ?? [])].map(stepRecordKey);
  const steps = await loadRun(engine, tenant, runId, [inputRecordKey, runRecordKey, ...keys]);
  return steps.kind === "run" ? withPayloads(engine, steps) : steps;
}

type ListItemsRequest = {
  readonly tenant: TenantId;
  readonly runId: RunId;
  readonly step: string;
  readonly after: number;
  readonly limit: number;
};

type ItemsAnswer =
  | {
      readonly kind: "items";
      readonly run: RunDetails;
      /** Ids of the items on this page. */
      readonly ids: readonly string[];
      readonly total: number;
    }
  /** There is no such step, or it has no items. */
  | { readonly kind: "step_not_found" }
  | Missing;

/** The items of one `for_each`, in their order. */
async function listItems(
  engine: Engine,
  { tenant, runId, step, after, limit }: ListItemsRequest,
): Promise<ItemsAnswer> {
  const first = await loadRun(engine, tenant, runId, [runRecordKey, stepRecordKey(step)]);
  if (first.kind !== "run") return first;
  const pinned = await engine.definitions.pinned(tenant, first.header.definition);
  if (pinned.kind === "unknown" || pinned.kind === "unavailable") return pinned;
  const definition = pinned.kind === "compiled" ? pinned.definition : undefined;
  if (definition?.steps.get(step)?.forEach === undefined) return { kind: "step_not_found" };
  const record = first.records.find(({ key }) => key === stepRecordKey(step));
  const total = record === undefined ? 0 : (readStepRecord(record.body).children?.total ?? 0);
  const end = Math.min(total, after + limit);
  const ids = Array.from({ length: Math.max(0, end - after) }, (_, index) => itemId(step, after + index));
  const items = await loadRun(engine, tenant, runId, [runRecordKey, ...ids.map(stepRecordKey)]);
  if (items.kind !== "run") return items;
  const whole = await withPayloads(engine, items);
  if (whole.kind !== "run") return whole;
  const { header, records } = whole;
  return { kind: "items", run: { header, records, definition }, ids, total };
}

type ListRunsRequest = {
  readonly tenant: TenantId;
  readonly before?: RunId;
  readonly limit: number;
  readonly status?: RunStatus;
  readonly workflow?: string;
};

function listRuns(engine: Engine, request: ListRunsRequest) {
  return ask(engine, "listRuns", request);
}

type TimelineRequest = {
  readonly tenant: TenantId;
  readonly runId: RunId;
  readonly after: number;
  readonly limit: number;
};

async function readTimeline(engine: Engine, request: TimelineRequest) {
  const answer = await ask(engine, "readTimeline", request);
  return answer.kind === "not_found" ? ({ kind: "run_not_found" } as const) : answer;
}

/** Which run a start's key maps to. */
function lookUpKey(engine: Engine, { tenant, key }: { readonly tenant: TenantId; readonly key: string }) {
  return ask(engine, "inspectReservation", { tenant, digest: digestOf("start_run", key) });
}
