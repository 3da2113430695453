// Asks the engine in advance what it would do with a retry: only it knows who handled a failure, and who went on without a step.
import { apply } from "../../domain/engine/apply.ts";
import { parseOutsideKey } from "../../domain/engine/keys.ts";
import type { JobId } from "../../domain/job.ts";
import type { RunHeader } from "../../domain/run.ts";
import { ask } from "../ask-until-known.ts";
import type { Trouble } from "../control-api.ts";
import type { Engine } from "../engine/engine.ts";

/** `open`: not to be known in advance; the run itself decides. */
type Foreseen =
  | { readonly kind: "applied" }
  | { readonly kind: "late" }
  | { readonly kind: "open" }
  | Trouble;

/** Rounds of loading what the engine wants to see. */
const roundsMax = 4;

export async function foreseeRetry(engine: Engine, header: RunHeader, jobId: JobId): Promise<Foreseen> {
  const { tenant, runId, actor, version, parent } = header;
  const pinned = await engine.definitions.pinned(tenant, header.definition);
  if (pinned.kind === "unknown" || pinned.kind === "unavailable") return pinned;
  if (pinned.kind === "missing") return { kind: "late" };
  const records = new Map<string, string | undefined>();
  const view = { runId, tenant, actor, version, records, ...(parent === undefined ? {} : { parent }) };
  const entry = { kind: "retry", entryId: "foreseen", jobId, actor } as const;
  for (let round = 0; round < roundsMax; round += 1) {
    const applied = apply(pinned.definition, view, [entry], engine.storeTime.nowMs(), engine.terms.commit);
    if (applied.kind === "applied") return { kind: applied.fates[0]?.fate ?? "open" };
    // What lies outside the run is checked when the entry is applied.
    if (applied.records.some((key) => parseOutsideKey(key) !== undefined)) return { kind: "open" };
    const loaded = await load(engine, header, applied.records);
    if (loaded.kind !== "run") return loaded.kind === "not_found" ? { kind: "open" } : { ...loaded };
    for (const key of applied.records) records.set(key, undefined);
    for (const { key, body } of loaded.records) records.set(key, body);
  }
  return { kind: "open" };
}

function load(engine: Engine, { tenant, runId }: RunHeader, records: readonly string[]) {
  return ask(engine, "loadRun", { tenant, runId, records });
}
