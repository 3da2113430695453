// Seals what is new in a tenant's audit trail. Any number of processes may: they compute the same hashes, and the slower reads again.

import { type Head, headOf, type Seal, sealedRowsMax, sealRows, secretIdOf } from "../../domain/audit.ts";
import { isGenuine, unreadableSeal } from "../../domain/audit-verdict.ts";
import type { TenantId } from "../../domain/tenant.ts";
import type { AuditAnchors } from "../../ports/ports.ts";
import type { Trouble } from "../caller.ts";
import type { Engine, SettingsEngine } from "../engine/engine.ts";
import {
  dropOldSeals,
  type FoundSeal,
  lastSealFrom,
  placeOf,
  putSeal,
  readRows,
  readSeals,
  rowsPerRead,
  type SealPage,
  trailTerms,
} from "./seals.ts";

/** What this process knows of tenants' seals: where to look first, and what must not disappear. */
export type SealBook = {
  recall(tenant: TenantId): Seen;
  learn(tenant: TenantId, seen: Seen): void;
  /** The newest head that was sealed or found in place. It only moves on to heads that contain it. */
  anchor(tenant: TenantId): Head | undefined;
  advance(tenant: TenantId, head: Head): void;
  /** Heads that have moved since the last time this was asked: what is written to the log. */
  takeMoved(): ReadonlyMap<TenantId, Head>;
  /** Tenants whose anchor was found missing, which is logged once. */
  readonly lost: Set<TenantId>;
};

/** The first and the last record of a seal; 0 when none was seen. */
type Seen = { readonly from: number; readonly to: number };

const unseen: Seen = { from: 0, to: 0 };
const tenantsMax = 10_000;

export function createSealBook(anchors: AuditAnchors = createMemoryAnchors()): SealBook {
  const known = new Map<TenantId, Seen>();
  let moved = new Map<TenantId, Head>();
  return {
    recall: (tenant) => known.get(tenant) ?? unseen,
    learn: (tenant, seen) => remember(known, tenant, seen),
    anchor: (tenant) => anchors.read(tenant),
    advance(tenant, head) {
      if (anchors.read(tenant)?.hash === head.hash) return;
      remember(moved, tenant, head);
      anchors.note(tenant, head);
    },
    takeMoved() {
      const taken = moved;
      moved = new Map();
      return taken;
    },
    lost: new Set(),
  };
}

function createMemoryAnchors(): AuditAnchors {
  const heads = new Map<TenantId, Head>();
  return {
    read: (tenant) => heads.get(tenant),
    note: (tenant, head) => remember(heads, tenant, head),
    close: async () => {},
  };
}

function remember<Value>(known: Map<TenantId, Value>, tenant: TenantId, value: Value): void {
  if (known.size >= tenantsMax && !known.has(tenant)) known.clear();
  known.set(tenant, value);
}

const seenIn = (seal: Seal | undefined): Seen =>
  seal === undefined ? unseen : { from: seal.from, to: headOf(seal).sequence };

type SealAnswer = { readonly kind: "sealed"; readonly to: number; readonly keptFrom: number } | Trouble;

/** Attempts when other processes are quicker; the quicker one has sealed everything. */
const conflictsMax = 5;

type Newest = { readonly found: FoundSeal & { readonly seal: Seal }; readonly state: "open" | "closed" };

export async function sealTrail(
  engine: SettingsEngine,
  book: SealBook,
  tenant: TenantId,
): Promise<SealAnswer> {
  const { metrics } = engine.ports;
  for (let conflicts = 0; ; conflicts += 1) {
    const sealed = await sealOnce(engine, book, tenant);
    if (sealed.kind === "conflict" && conflicts < conflictsMax) continue;
    if (sealed.kind === "sealed") return sealed;
    metrics.count("audit_seals_total", { outcome: "trouble" });
    if (sealed.kind !== "conflict") return sealed;
    return { kind: "unavailable", cause: "other processes were always quicker" };
  }
}

/** From the newest seal to the newest row, unless another process seals at the same time. */
async function sealOnce(
  engine: SettingsEngine,
  book: SealBook,
  tenant: TenantId,
): Promise<SealAnswer | { readonly kind: "conflict" }> {
  const { metrics } = engine.ports;
  const { secret } = trailTerms(engine.config, tenant);
  const rowsKept = engine.config["audit.recordsPerTenantMax"];
  // Before the newest seal is read: another process may note a newer head meanwhile.
  const anchor = book.anchor(tenant);
  const found = await newestSeal(engine, book, tenant);
  if (found.kind !== "newest") return found;
  let { newest } = found;
  const holding = await holdsAnchor(engine, tenant, anchor, newest?.found.seal);
  if (typeof holding === "object") return holding;
  if (holding === "lost" && !book.lost.has(tenant)) {
    const from = anchor?.sequence ?? 0;
    alarm(engine, "the audit trail does not contain the head that was noted outside the store", tenant, from);
    book.lost.add(tenant);
  }
  const advance = (seal: Seal) => {
    if (holding === "held") book.advance(tenant, headOf(seal));
  };
  if (newest !== undefined) advance(newest.found.seal);
  for (;;) {
    const head = newest === undefined ? 0 : headOf(newest.found.seal).sequence;
    const reading = await readRows(engine, tenant, { after: head, limit: rowsPerRead });
    if (reading.kind !== "events") return reading;
    const keptFrom = newest?.found.seal.keptFrom ?? 1;
    if (reading.events.length === 0) return { kind: "sealed", to: head, keptFrom };
    const open = newest === undefined ? undefined : { seal: newest.found.seal, state: newest.state };
    const seals = sealRows({ chain: { tenant, secret }, newest: open, rowsKept }, reading);
    for (const seal of seals) {
      const revision: number = seal.from === newest?.found.from ? newest.found.revision : 0;
      const saved = await putSeal(engine, { tenant, secret }, seal, revision);
      if (saved.kind === "revision_conflict") {
        metrics.count("audit_seals_total", { outcome: "conflict" });
        return { kind: "conflict" };
      }
      if (saved.kind !== "saved") return saved;
      if (revision === 0) await begun(engine, tenant, seal);
      metrics.count("audit_seals_total", { outcome: "saved" });
      book.learn(tenant, seenIn(seal));
      advance(seal);
      newest = { found: { ...saved, from: seal.from, stored: undefined, seal }, state: "open" };
    }
  }
}

/**
 * Whether the trail still contains the head that was anchored. If it does not, the anchor stays: moving it on would make what
 * was rewritten look as if it had always been there.
 */
async function holdsAnchor(
  engine: SettingsEngine,
  tenant: TenantId,
  anchor: Head | undefined,
  newest: Seal | undefined,
): Promise<"held" | "lost" | Trouble> {
  if (anchor === undefined) return "held";
  if (newest === undefined || anchor.sequence > headOf(newest).sequence) return "lost";
  const found = newest.hashes[anchor.sequence - newest.from];
  if (found !== undefined) return found === anchor.hash ? "held" : "lost";
  for (let place: string | undefined = placeOf(anchor.sequence - sealedRowsMax + 1); place !== undefined; ) {
    const page: SealPage | Trouble = await readSeals(engine, tenant, place);
    if (page.kind !== "seals") return page;
    for (const { stored } of page.seals) {
      const hash = stored?.seal.hashes[anchor.sequence - stored.seal.from];
      if (hash !== undefined) return hash === anchor.hash ? "held" : "lost";
      if (stored !== undefined && stored.seal.from > anchor.sequence)
        return anchor.sequence < newest.keptFrom ? "held" : "lost";
    }
    place = page.next;
  }
  return "lost";
}

/** After a new seal: its gaps are reported, and what it has made superfluous is removed. */
async function begun(engine: SettingsEngine, tenant: TenantId, seal: Seal): Promise<void> {
  const { log, metrics } = engine.ports;
  for (const { from, to, why } of seal.gaps) {
    metrics.count("audit_gaps_total", { why });
    const fields = { tenant, from, to };
    if (why === "missing") log.error("audit records are missing that were never sealed", fields);
    else log.warn("audit records were dropped before they were sealed", fields);
  }
  if (seal.keptFrom > sealedRowsMax) await dropOldSeals(engine, tenant, seal.keptFrom);
}

/** Nothing is added to a seal that somebody has changed: that would make it genuine again. The chain goes on in the next one. */
export async function newestSeal(
  engine: SettingsEngine,
  book: SealBook,
  tenant: TenantId,
): Promise<{ readonly kind: "newest"; readonly newest: Newest | undefined } | Trouble> {
  const terms = trailTerms(engine.config, tenant);
  const known = book.recall(tenant);
  const found = await findNewest(engine, tenant, known.from);
  if (found.kind !== "found") return found;
  const { seal: document } = found;
  const stored = document?.stored;
  const seen = seenIn(stored?.seal);
  if (known.to > seen.to) alarm(engine, "seals of the audit trail have disappeared", tenant, seen.to + 1);
  book.learn(tenant, seen);
  if (document === undefined) return { kind: "newest", newest: undefined };
  const genuine = stored !== undefined && isGenuine(terms, stored);
  if (!genuine) alarm(engine, "the newest seal of the audit trail was changed", tenant, document.from);
  const seal = stored?.seal ?? unreadableSeal(document.from);
  const state = genuine && seal.secretId === secretIdOf(terms.secret) ? "open" : "closed";
  return { kind: "newest", newest: { found: { ...document, seal }, state } };
}

export function alarm({ ports }: Engine<never>, message: string, tenant: TenantId, from: number): void {
  ports.metrics.count("audit_seals_total", { outcome: "refused" });
  ports.log.error(message, { tenant, from });
}

/** Near where it was seen, or near the newest row; only if there is none by looking at all. */
async function findNewest(engine: SettingsEngine, tenant: TenantId, known: number) {
  let near = known;
  if (near === 0) {
    const end = await readRows(engine, tenant, { after: Number.MAX_SAFE_INTEGER, limit: 1 });
    if (end.kind !== "events") return end;
    near = Math.max(1, end.last - 2 * sealedRowsMax);
  }
  const found = await lastSealFrom(engine, tenant, near);
  if (found.kind !== "found" || found.seal !== undefined || near <= 1) return found;
  return lastSealFrom(engine, tenant, 1);
}
