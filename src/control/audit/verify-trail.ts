// Verifies a tenant's audit trail: seals what is new, then compares every record that is kept with its hash.
import { type Gap, type Head, headOf, oldestKept, type Seal } from "../../domain/audit.ts";
import { type Break, judgeSeal, unreadableSeal } from "../../domain/audit-verdict.ts";
import type { TenantId } from "../../domain/tenant.ts";
import type { Trouble } from "../control-api.ts";
import type { Engine } from "../engine/engine.ts";
import { type SealBook, sealTrail } from "./seal-trail.ts";
import { type FoundSeal, readRows, readSeals, type SealPage, trailTerms } from "./seals.ts";

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
  /** Of the head that was asked about. `gone`: it was newer than all that is there. `not_kept`: too old to tell. */
  readonly expected?: "same" | "different" | "gone" | "not_kept";
};

/** What has been seen of the trail so far. */
type Progress = {
  before: Seal | undefined;
  keptFrom: number;
  compared: number;
  readonly gaps: Gap[];
  firstBroken: Break | undefined;
  expected: TrailVerdict["expected"];
};

/** `expect` is a head that was noted earlier, elsewhere: who has rewritten the whole trail since cannot have known it. */
export async function verifyTrail(
  engine: Engine,
  book: SealBook,
  tenant: TenantId,
  expect?: Head,
): Promise<TrailVerdict | Trouble> {
  const sealed = await sealTrail(engine, book, tenant);
  if (sealed.kind !== "sealed") return sealed;
  const progress: Progress = {
    before: undefined,
    // What had been dropped when the newest seal was made is gone for all of them.
    keptFrom: sealed.keptFrom,
    compared: 0,
    gaps: [],
    firstBroken: undefined,
    expected: expect === undefined ? undefined : "not_kept",
  };
  for (let place: string | undefined = ""; place !== undefined; ) {
    const page: SealPage | Trouble = await readSeals(engine, tenant, place);
    if (page.kind !== "seals") return page;
    for (const found of page.seals) {
      const trouble = await compare(engine, tenant, found, progress, expect);
      if (trouble !== undefined) return trouble;
    }
    place = page.next;
  }
  const verdict = verdictOf(progress, expect);
  engine.ports.metrics.count("audit_verifications_total", { status: verdict.status });
  return verdict;
}

async function compare(
  engine: Engine,
  tenant: TenantId,
  { from, stored }: FoundSeal,
  progress: Progress,
  expect: Head | undefined,
): Promise<Trouble | undefined> {
  const seal = stored?.seal ?? unreadableSeal(from);
  const limit = seal.hashes.length;
  const reading = await readRows(engine, tenant, { after: seal.from - 1, limit });
  if (reading.kind !== "events") return reading;
  const rowsKept = engine.config["store.eventsPerTenantMax"];
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
  const expectedHash = expect === undefined ? undefined : seal.hashes[expect.sequence - seal.from];
  if (expectedHash !== undefined) progress.expected = expectedHash === expect?.hash ? "same" : "different";
  progress.before = seal;
  return undefined;
}

function verdictOf(progress: Progress, expect: Head | undefined): TrailVerdict {
  const { before, keptFrom, compared, gaps } = progress;
  const head = before === undefined ? undefined : headOf(before);
  const sealedTo = head?.sequence ?? 0;
  const isGone = expect !== undefined && expect.sequence > sealedTo;
  const expected = isGone ? "gone" : progress.expected;
  const firstBroken = progress.firstBroken ?? unexpected(expected, expect, sealedTo);
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
    ...(expected === undefined ? {} : { expected }),
  };
}

function unexpected(
  expected: TrailVerdict["expected"],
  expect: Head | undefined,
  sealedTo: number,
): Break | undefined {
  if (expect !== undefined && expected === "different")
    return { sequence: expect.sequence, why: "hash_changed" };
  return expected === "gone" ? { sequence: sealedTo + 1, why: "row_missing" } : undefined;
}
