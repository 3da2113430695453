// Reads and writes the seals of a tenant's audit trail: documents, named by the number of their first record.
import type { Config } from "../../config.ts";
import { headOf, type Seal, sealedRowsMax, type TrailReading } from "../../domain/audit.ts";
import { readSeal, type StoredSeal, type TrailTerms, writeSeal } from "../../domain/audit-verdict.ts";
import type { TenantId } from "../../domain/tenant.ts";
import { ask } from "../ask-until-known.ts";
import type { Trouble } from "../caller.ts";
import { troubleOf } from "../caller.ts";
import type { SettingsEngine } from "../engine/engine.ts";

/** A document of seals; without `stored` somebody has written something else there. */
export type FoundSeal = {
  readonly from: number;
  readonly revision: number;
  readonly stored: StoredSeal | undefined;
};

/** Of one read: 220 KB of seals, and rows of two seals. */
const sealsPerRead = 20;
export const rowsPerRead = 500;

/** The first seals, the others only verify; `none` stands for no secret. */
export function trailTerms(config: Config, tenant: TenantId): TrailTerms & { readonly secret: string } {
  const secrets = config["audit.secret"].split(",").map((secret) => (secret === "none" ? "" : secret));
  return { tenant, secrets, secret: secrets[0] ?? "" };
}

export type SealPage = {
  readonly kind: "seals";
  readonly seals: readonly FoundSeal[];
  /** The place after this page; absent on the last one. */
  readonly next?: string;
};

/** What sorts before all seals: earlier versions sealed the rows of the feed, and named seals by the number alone. */
const firstPlace = "t";

/** The place of seals whose first record has this number or a later one. */
export function placeOf(from: number): string {
  return from <= 1 ? firstPlace : idOf(from - 1);
}

/** Seals after a place, in order. What has no number for a name is not one. */
export async function readSeals(
  engine: SettingsEngine,
  tenant: TenantId,
  after: string,
): Promise<SealPage | Trouble> {
  const request = { tenant, collection: "seal", after, limit: sealsPerRead } as const;
  const answer = await ask(engine, "listDocuments", request);
  if (answer.kind !== "listed") return { kind: answer.kind, cause: answer.cause };
  const { documents } = answer;
  const seals = documents
    .filter(({ id }) => /^t\d{12}$/.test(id))
    .map(({ id, revision, body }) => ({ from: numberOf(id), revision, stored: storedIn(id, body) }));
  const last = documents.length < sealsPerRead ? undefined : documents.at(-1)?.id;
  return { kind: "seals", seals, ...(last === undefined ? {} : { next: last }) };
}

/** A seal under another number than its own is none. */
function storedIn(id: string, body: string): StoredSeal | undefined {
  const stored = readSeal(body);
  return stored?.seal.from === numberOf(id) ? stored : undefined;
}

/** The last one from a number on. */
export async function lastSealFrom(
  engine: SettingsEngine,
  tenant: TenantId,
  from: number,
): Promise<{ readonly kind: "found"; readonly seal: FoundSeal | undefined } | Trouble> {
  let newest: FoundSeal | undefined;
  for (let place = placeOf(from); ; ) {
    const page = await readSeals(engine, tenant, place);
    if (page.kind !== "seals") return page;
    newest = page.seals.at(-1) ?? newest;
    if (page.next === undefined) return { kind: "found", seal: newest };
    place = page.next;
  }
}

/** The seal of a record, if it is sealed, and the one before it. */
export async function sealAround(
  engine: SettingsEngine,
  tenant: TenantId,
  sequence: number,
): Promise<
  | { readonly kind: "found"; readonly stored: StoredSeal | undefined; readonly before: Seal | undefined }
  | Trouble
> {
  const page = await readSeals(engine, tenant, placeOf(sequence - 2 * sealedRowsMax));
  if (page.kind !== "seals") return page;
  const index = page.seals.findLastIndex(({ from }) => from <= sequence);
  const stored = page.seals[index]?.stored;
  const holds = stored !== undefined && headOf(stored.seal).sequence >= sequence;
  return { kind: "found", stored: holds ? stored : undefined, before: page.seals[index - 1]?.stored?.seal };
}

export async function putSeal(
  engine: SettingsEngine,
  { tenant, secret }: { readonly tenant: TenantId; readonly secret: string },
  seal: Seal,
  expectedRevision: number,
): Promise<
  { readonly kind: "saved"; readonly revision: number } | { readonly kind: "revision_conflict" } | Trouble
> {
  const { sequence, hash } = headOf(seal);
  const request = {
    tenant,
    collection: "seal",
    id: idOf(seal.from),
    body: writeSeal({ tenant, secret }, seal),
    expectedRevision,
    // Two processes that seal up to the same record write the same hashes: both may believe that they were first.
    changeId: `${sequence}:${hash}:${seal.keptFrom}`,
    actor: engine.ports.instance,
  } as const;
  const answer = await ask(engine, "putDocument", request);
  return answer.kind === "saved" || answer.kind === "revision_conflict" ? answer : troubleOf(answer);
}

/** Keeps the last seal that begins at or before the oldest record that is kept: it has the hash before that record. */
export async function dropOldSeals(
  engine: SettingsEngine,
  tenant: TenantId,
  keptFrom: number,
): Promise<void> {
  const { ports, config } = engine;
  const page = await readSeals(engine, tenant, placeOf(1));
  if (page.kind !== "seals") return;
  for (const [index, { from }] of page.seals.entries()) {
    const next = page.seals[index + 1];
    if (next === undefined || next.from > keptFrom) return;
    const request = { tenant, collection: "seal", id: idOf(from), actor: ports.instance } as const;
    // What could not be removed now is removed with the next seal.
    await ports.store.removeDocument(request, { deadlineMs: config["store.callTimeoutMs"] });
  }
}

/** Of versions that sealed the rows of the feed: nothing compares with them any more. */
export async function dropFormerSeals(engine: SettingsEngine, tenant: TenantId): Promise<void> {
  const { ports, config } = engine;
  for (;;) {
    const request = { tenant, collection: "seal", after: "", limit: sealsPerRead } as const;
    const answer = await ask(engine, "listDocuments", request);
    const former = answer.kind === "listed" ? answer.documents.filter(({ id }) => /^\d{12}$/.test(id)) : [];
    if (former.length === 0) return;
    for (const { id } of former) {
      const removal = { tenant, collection: "seal", id, actor: ports.instance } as const;
      const removed = await ports.store.removeDocument(removal, {
        deadlineMs: config["store.callTimeoutMs"],
      });
      if (removed.kind === "unknown" || removed.kind === "unavailable") return;
    }
  }
}

/** Rows after a number, with where the rows begin and end. */
export async function readRows(
  engine: SettingsEngine,
  tenant: TenantId,
  { after, limit }: { readonly after: number; readonly limit: number },
): Promise<({ readonly kind: "events" } & TrailReading) | Trouble> {
  const answer = await ask(engine, "readEvents", { tenant, after, limit, of: "trail" });
  return answer.kind === "events" ? answer : { kind: answer.kind, cause: answer.cause };
}

/** In the order of numbers, up to 10^12 - 1 of them. */
function idOf(sequence: number): string {
  return `${firstPlace}${String(sequence).padStart(12, "0")}`;
}

function numberOf(id: string): number {
  return Number(id.slice(firstPlace.length));
}
