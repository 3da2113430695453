// Loads what a run reads beyond its own records: other runs of its tree, and the workflows that its steps start.
import { type OutsideKey, parseOutsideKey } from "../../domain/engine/keys.ts";
import type { RunId } from "../../domain/run.ts";
import { ask } from "../ask-until-known.ts";
import type { WorkflowDocument } from "../workflows/definitions.ts";
import type { Engine } from "./engine.ts";
import type { CachedRun } from "./run-cache.ts";

/** False when the store did not answer. What is not there counts as seen. */
export async function loadOutside(engine: Engine, run: CachedRun, keys: readonly string[]): Promise<boolean> {
  const wanted = keys.flatMap((key) => {
    const outside = parseOutsideKey(key);
    return outside === undefined ? [] : [{ key, outside }];
  });
  for (const { key } of wanted) run.records.set(key, undefined);
  const answers = await Promise.all([
    ...wanted.map(({ key, outside }) => loadWorkflow(engine, run, key, outside)),
    ...[...byRun(wanted.filter(isForeign))].map(([runId, records]) =>
      loadForeign(engine, run, runId, records),
    ),
  ]);
  if (answers.every((isKnown) => isKnown)) return true;
  for (const { key } of wanted) run.records.delete(key);
  return false;
}

/** The world outside moves on: what was read for one commit is not taken for the next. */
export function forgetOutside({ records }: CachedRun): void {
  for (const key of records.keys()) if (parseOutsideKey(key) !== undefined) records.delete(key);
}

type Wanted = { readonly key: string; readonly outside: OutsideKey };
type Foreign = { readonly key: string; readonly outside: Extract<OutsideKey, { kind: "run" }> };

function byRun(wanted: readonly Foreign[]): ReadonlyMap<RunId, readonly Foreign[]> {
  const groups = new Map<RunId, Foreign[]>();
  for (const one of wanted) {
    const group = groups.get(one.outside.runId) ?? [];
    group.push(one);
    groups.set(one.outside.runId, group);
  }
  return groups;
}

function isForeign(wanted: Wanted): wanted is Foreign {
  return wanted.outside.kind === "run";
}

async function loadWorkflow(
  engine: Engine,
  run: CachedRun,
  key: string,
  outside: OutsideKey,
): Promise<boolean> {
  if (outside.kind !== "workflow") return true;
  const request = { tenant: run.tenant, collection: "workflow", id: outside.workflow } as const;
  const answer = await ask(engine, "getDocument", request);
  if (answer.kind === "document") {
    run.records.set(key, (JSON.parse(answer.document.body) as WorkflowDocument).hash);
  }
  return answer.kind === "document" || answer.kind === "not_found";
}

async function loadForeign(
  engine: Engine,
  run: CachedRun,
  runId: RunId,
  wanted: readonly Foreign[],
): Promise<boolean> {
  const records = wanted.map(({ outside }) => outside.key);
  const answer = await ask(engine, "loadRun", { tenant: run.tenant, runId, records });
  if (answer.kind !== "run") return answer.kind === "not_found";
  const bodies = new Map(answer.records.map(({ key, body }) => [key, body]));
  for (const { key, outside } of wanted) run.records.set(key, bodies.get(outside.key));
  return true;
}
