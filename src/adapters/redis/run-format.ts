// A run as it lies in Redis: the names of its fields, and how its header and its inbox entries are read back.
import type { InboxEntry } from "../../domain/inbox.ts";
import type { ParentStep, RunHeader, RunId, RunRecord, RunStatus } from "../../domain/run.ts";
import type { TenantId } from "../../domain/tenant.ts";
import { textOfWord } from "./script-call.ts";

/** In the order in which scripts are asked for them. */
export const headerFields = [
  "workflow",
  "definition",
  "status",
  "version",
  "actor",
  "admittedAt",
  "updatedAt",
  "endedAt",
  "cancel",
  "reservation",
  "parent",
] as const;

export const recordPrefix = "record:";

export function recordField(key: string): string {
  return recordPrefix + key;
}

/** Values in the order of `headerFields`, as HMGET gives them. */
export function parseHeader(
  { tenant, runId }: { readonly tenant: TenantId; readonly runId: RunId },
  values: readonly (string | null)[],
): RunHeader {
  const [workflow, definition, status, version, actor, admittedAt, updatedAt, ...rest] = values;
  const [endedAt, cancel, reservation, parent] = rest;
  return {
    runId,
    tenant,
    workflow: workflow ?? "",
    definition: definition ?? "",
    status: status as RunStatus,
    version: Number(version),
    actor: actor ?? "",
    admittedAtMs: Number(admittedAt),
    updatedAtMs: Number(updatedAt),
    ...(endedAt == null ? {} : { endedAtMs: Number(endedAt) }),
    ...(cancel == null ? {} : { cancelRequested: cancel }),
    ...(reservation == null ? {} : { reservation }),
    ...(parent == null ? {} : { parent: parseParent(parent) }),
  };
}

/** `<run> <step's word> <attempt> <root> <depth>` */
function parseParent(text: string): ParentStep {
  const [runId = "", step = "", attempt, root = "", depth] = text.split(" ");
  return {
    runId: runId as RunId,
    step: textOfWord(step),
    attempt: Number(attempt),
    root: root as RunId,
    depth: Number(depth),
  };
}

/** The records that a script was asked for by name, from the values that follow the header's. */
export function parseRecords(keys: readonly string[], values: readonly (string | null)[]): RunRecord[] {
  return keys.flatMap((key, index) => {
    const body = values[headerFields.length + index];
    return typeof body === "string" ? [{ key, body }] : [];
  });
}

/** `<kind> <json>` and, on a line of its own, the id: a script sets an entry aside by its kind and id and never reads the JSON. */
export function packEntry(entry: InboxEntry): string {
  return `${entry.kind} ${JSON.stringify(entry)}\n${entry.entryId}`;
}

export function parseEntry(stored: string): InboxEntry {
  const line = stored.indexOf("\n");
  const space = stored.indexOf(" ");
  const json = stored.slice(space + 1, line);
  if (stored.slice(0, space) !== "poisoned") return JSON.parse(json) as InboxEntry;
  return { kind: "poisoned", entryId: stored.slice(line + 1), was: json };
}
