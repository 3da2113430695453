// Verifies a tenant's audit trail: seals what is new, then compares every record that is kept with its hash.
import { type Gap, type Head, headOf, oldestKept, type Seal } from "../../domain/audit.ts";
import { type Break, judgeSeal, unreadableSeal } from "../../domain/audit-verdict.ts";
import type { TenantId } from "../../domain/tenant.ts";
import type { Trouble } from "../caller.ts";
import type { SettingsEngine } from "../engine/engine.ts";
import { sealTrail } from "./seal-trail.ts";
import { type FoundSeal, placeOf, readRows, readSeals, type SealPage, trailTerms } from "./seals.ts";

export type TrailVerdict = {
  readonly kind: "verified";
  /** `incomplete`: what is there is as it was sealed, but some records had been dropped before they could be. */
  readonly status: "intact" | "incomplete" | "broken";
  /** Records that were compared with their hash. */
  readonly compared: number;
  readonly gaps: readonly Gap[];
  readonly firstBroken?: Break;
  readonly sealedTo: number;
  readonly head?: Head;
  /** Older records are dropped by the store, as it is set to. */
  readonly keptFrom: number;
  /** Of the head that was asked about. */
  readonly expected?: HeadState;
  /** The head that this process keeps outside the store; absent if it has none. */
  readonly anchored?: { readonly sequence: number; readonly state: HeadState };
  readonly notRuledOut: readonly Doubt[];
};

/** `gone`: the head was newer than all that is there. `not_kept`: it is too old to tell. */
type HeadState = "same" | "different" | "gone" | "not_kept";

/**
 * What somebody who can write to the store could have done unnoticed. `rewritten_unanchored`: changed records and made their
 * seals again, since no head is kept outside. `rewritten_after_anchor`: the same with what is newer than that head.
 * `recomputed_without_secret`: computed genuine hashes, since there is no `audit.secret`.
 */
type Doubt = "rewritten_unanchored" | "rewritten_after_anchor" | "recomputed_without_secret";

/** What has been seen of the trail so far. */
type Progress = {
  before: Seal | undefined;
  keptFrom: number;
  compared: number;
  readonly gaps: Gap[];
  firstBroken: Break | undefined;
  /** Heads from outside the store that the chain must contain. */
  readonly sought: readonly Sought[];
};

type Sought = { readonly head: Head; state: HeadState };

const seek = (head: Head | undefined): Sought | undefined =>
  head === undefined ? undefined : { head, state: "not_kept" };

type VerifyRequest = {
  readonly tenant: TenantId;
  /** A head that was noted earlier, elsewhere: who has rewritten the whole trail since cannot have known it. */
  readonly expect?: Head | undefined;
};

/** Seals what is new first, then compares all that is kept. */
export async function verifyTrail(
  engine: SettingsEngine,
  { tenant, expect }: VerifyRequest,
): Promise<TrailVerdict | Trouble> {
  // What was anchored before: sealing moves the anchor on to what is new.
  const anchor = engine.seals.anchor(tenant);
  let sealed = await sealTrail(engine, engine.seals, tenant);
  for (;;) {
    if (sealed.kind !== "sealed") return sealed;
    const [expected, anchored] = [seek(expect), seek(anchor)];
    const sought = [expected, anchored].filter((one) => one !== undefined);
    const progress = await compareAll(engine, tenant, { keptFrom: sealed.keptFrom, sought });
    if ("kind" in progress) return progress;
    const hasSecret = trailTerms(engine.config, tenant).secret !== "";
    const verdict = verdictOf(progress, { expected, anchored, hasSecret });
    const { why } = verdict.firstBroken ?? {};
    if (why === "row_missing" || why === "seal_missing") {
      const { keptFrom } = sealed;
      sealed = await sealTrail(engine, engine.seals, tenant);
      // What was dropped by age while it was being compared is not missing.
      if (sealed.kind === "sealed" && sealed.keptFrom !== keptFrom) continue;
    }
    engine.ports.metrics.count("audit_verifications_total", { status: verdict.status });
    return verdict;
  }
}

async function compareAll(
  engine: SettingsEngine,
  tenant: TenantId,
  // What had been dropped when the newest seal was made is gone for all of them.
  { keptFrom, sought }: Pick<Progress, "keptFrom" | "sought">,
): Promise<Progress | Trouble> {
  const begin = { before: undefined, compared: 0, gaps: [], firstBroken: undefined };
  const progress: Progress = { ...begin, keptFrom, sought };
  for (let place: string | undefined = placeOf(1); place !== undefined; ) {
    const page: SealPage | Trouble = await readSeals(engine, tenant, place);
    if (page.kind !== "seals") return page;
    for (const found of page.seals) {
      const trouble = await compare(engine, tenant, found, progress);
      if (trouble !== undefined) return trouble;
    }
    place = page.next;
  }
  return progress;
}

async function compare(
  engine: SettingsEngine,
  tenant: TenantId,
  { from, stored }: FoundSeal,
  progress: Progress,
): Promise<Trouble | undefined> {
  const seal = stored?.seal ?? unreadableSeal(from);
  const limit = seal.hashes.length;
  const reading = await readRows(engine, tenant, { after: seal.from - 1, limit });
  if (reading.kind !== "events") return reading;
  const rowsKept = engine.config["audit.recordsPerTenantMax"];
  progress.keptFrom = oldestKept(progress.keptFrom, reading.last, rowsKept);
  const { keptFrom, before } = progress;
  const found: Break | undefined =
    stored === undefined
      ? { sequence: from, why: "seal_changed" }
      : judgeSeal(trailTerms(engine.config, tenant), { stored, before, rows: reading.events, keptFrom });
  progress.firstBroken ??= found;
  progress.gaps.push(...seal.gaps);
  const { sequence } = headOf(seal);
  progress.compared += Math.max(0, sequence - Math.max(seal.from, keptFrom) + 1);
  for (const one of progress.sought) {
    const hash = seal.hashes[one.head.sequence - seal.from];
    if (hash !== undefined) one.state = hash === one.head.hash ? "same" : "different";
  }
  progress.before = seal;
  return undefined;
}

type Outside = {
  readonly expected: Sought | undefined;
  readonly anchored: Sought | undefined;
  readonly hasSecret: boolean;
};

function verdictOf(progress: Progress, { expected, anchored, hasSecret }: Outside): TrailVerdict {
  const { before, keptFrom, compared, gaps, sought } = progress;
  const head = before === undefined ? undefined : headOf(before);
  const sealedTo = head?.sequence ?? 0;
  for (const one of sought) if (one.head.sequence > sealedTo) one.state = "gone";
  const firstBroken =
    progress.firstBroken ??
    sought.map((one) => missingHead(one, sealedTo)).find((found) => found !== undefined);
  const whole = gaps.length === 0 ? "intact" : "incomplete";
  return {
    kind: "verified",
    status: firstBroken === undefined ? whole : "broken",
    compared,
    gaps,
    ...(firstBroken === undefined ? {} : { firstBroken }),
    sealedTo,
    ...(head === undefined ? {} : { head }),
    keptFrom,
    ...(expected === undefined ? {} : { expected: expected.state }),
    ...(anchored === undefined
      ? {}
      : { anchored: { sequence: anchored.head.sequence, state: anchored.state } }),
    notRuledOut: [
      ...doubtsAfter(Math.max(0, ...sought.filter(isSame).map((one) => one.head.sequence)), sealedTo),
      ...(hasSecret ? [] : (["recomputed_without_secret"] as const)),
    ],
  };
}

const isSame = ({ state }: Sought): boolean => state === "same";

function doubtsAfter(anchoredTo: number, sealedTo: number): readonly Doubt[] {
  if (anchoredTo >= sealedTo) return [];
  return [anchoredTo === 0 ? "rewritten_unanchored" : "rewritten_after_anchor"];
}

function missingHead({ head, state }: Sought, sealedTo: number): Break | undefined {
  if (state === "different") return { sequence: head.sequence, why: "hash_changed" };
  return state === "gone" ? { sequence: sealedTo + 1, why: "row_missing" } : undefined;
}
