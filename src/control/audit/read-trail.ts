// Reads a tenant's audit trail page by page, each record with its hash where it is sealed; writes counts of refusals into it.

import { type EventRow, sealedRowsMax } from "../../domain/audit.ts";
import type { TenantId } from "../../domain/tenant.ts";
import { ask } from "../ask-until-known.ts";
import { type Trouble, troubleOf } from "../caller.ts";
import type { SettingsEngine } from "../engine/engine.ts";
import { placeOf, readRows, readSeals, rowsPerRead, type SealPage } from "./seals.ts";

type TrailPage = {
  readonly tenant: TenantId;
  readonly after: number;
  readonly limit: number;
  readonly type?: string;
  readonly actor?: string;
};

type TrailRecord = { readonly row: EventRow; readonly hash: string | undefined };

type TrailRecords = {
  readonly kind: "records";
  readonly records: readonly TrailRecord[];
  /** Where to go on; absent at the end. Also when few matched: one answer looks at a bounded number of rows. */
  readonly next?: number;
  readonly first: number;
  readonly last: number;
};

/** Looked at for one page: a rare actor is found page by page. */
const readsMax = 10;

export async function readTrail(engine: SettingsEngine, page: TrailPage): Promise<TrailRecords | Trouble> {
  const { tenant } = page;
  const rows: EventRow[] = [];
  let place = page.after;
  for (let reads = 1; ; reads += 1) {
    const reading = await readRows(engine, tenant, { after: place, limit: rowsPerRead });
    if (reading.kind !== "events") return reading;
    for (const row of reading.events) {
      place = row.sequence;
      if (matches(page, row)) rows.push(row);
      if (rows.length === page.limit) break;
    }
    const isLast = reading.events.length === 0 || place >= reading.last;
    if (!isLast && rows.length < page.limit && reads < readsMax) continue;
    const hashes = await hashesOf(engine, tenant, rows);
    if (hashes.kind !== "hashes") return hashes;
    return {
      kind: "records",
      records: rows.map((row) => ({ row, hash: hashes.bySequence.get(row.sequence) })),
      ...(isLast ? {} : { next: place }),
      first: reading.first,
      last: reading.last,
    };
  }
}

function matches({ type, actor }: TrailPage, row: EventRow): boolean {
  return (type === undefined || row.type === type) && (actor === undefined || row.actor === actor);
}

/** Of the rows from the first to the last: seals are read where these are. */
async function hashesOf(
  engine: SettingsEngine,
  tenant: TenantId,
  rows: readonly EventRow[],
): Promise<{ readonly kind: "hashes"; readonly bySequence: ReadonlyMap<number, string> } | Trouble> {
  const bySequence = new Map<number, string>();
  const [first, last] = [rows[0]?.sequence ?? 1, rows.at(-1)?.sequence ?? 0];
  let place: string | undefined = placeOf(first - sealedRowsMax + 1);
  for (let reached = first; place !== undefined && reached <= last; ) {
    const page: SealPage | Trouble = await readSeals(engine, tenant, place);
    if (page.kind !== "seals") return page;
    for (const { from, stored } of page.seals) {
      for (const [index, hash] of stored?.seal.hashes.entries() ?? []) bySequence.set(from + index, hash);
      reached = from;
    }
    place = page.next;
  }
  return { kind: "hashes", bySequence };
}

/**
 * Writes what was refused in a minute, as one record. The document is only the bearer of its record: one for all processes,
 * so that those that are long gone leave none behind. The text names the minute and the process, and is the same when it is
 * written again.
 */
export async function recordRefusals(
  engine: SettingsEngine,
  { tenant, text }: { readonly tenant: TenantId; readonly text: string },
): Promise<{ readonly kind: "recorded" } | Trouble> {
  const { ports } = engine;
  const request = {
    tenant,
    collection: "refusal",
    id: "latest",
    body: JSON.stringify({ text }),
    changeId: text,
    actor: ports.instance,
  } as const;
  const answer = await ask(engine, "putDocument", request);
  if (answer.kind === "saved") return { kind: "recorded" };
  if (answer.kind === "revision_conflict") throw new Error("no revision was expected");
  return troubleOf(answer);
}
