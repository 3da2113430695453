// Compares the records of an audit trail with their seals: what was changed, is missing, or cannot be proved.
import {
  beginOf,
  type Chain,
  checkOf,
  type EventRow,
  firstHash,
  type Gap,
  headOf,
  linkGaps,
  linkRow,
  type Seal,
  secretIdOf,
} from "./audit.ts";
import type { TenantId } from "./tenant.ts";

/** A seal as it was found: its check is part of the stored text. */
export type StoredSeal = { readonly seal: Seal; readonly check: string };

/**
 * `row_changed`: the row is not the one that was sealed. `row_missing`: it is gone, although the store must still keep it.
 * `hash_changed`, `seal_changed`: the stored hash, or something else in its seal. `seal_missing`: the chain has a hole.
 * `other_secret`: sealed with a secret that is not set here, or with none.
 */
type BreakReason =
  | "row_changed"
  | "row_missing"
  | "hash_changed"
  | "seal_changed"
  | "seal_missing"
  | "other_secret";

export type Break = { readonly sequence: number; readonly why: BreakReason };

export type TrailTerms = {
  readonly tenant: TenantId;
  /** Those that seals may have been made with; an empty one stands for none. */
  readonly secrets: readonly string[];
};

type SealEvidence = {
  readonly stored: StoredSeal;
  /** The seal before it, if one is kept. */
  readonly before: Seal | undefined;
  /** The rows that are there, of those that it seals. */
  readonly rows: readonly EventRow[];
  /** Older records may be gone. */
  readonly keptFrom: number;
};

/** The first thing that is wrong with a seal or its records. */
export function judgeSeal(terms: TrailTerms, evidence: SealEvidence): Break | undefined {
  const { seal, check } = evidence.stored;
  const chain = chainOf(terms, seal);
  if (chain === undefined) return { sequence: seal.from, why: "other_secret" };
  const isGenuine = check === checkOf(chain, seal);
  return (
    judgeBeginning(chain, evidence) ??
    judgeGaps(seal.gaps) ??
    judgeRows(chain, evidence, isGenuine ? "row_changed" : "hash_changed") ??
    (isGenuine ? undefined : { sequence: seal.from, why: "seal_changed" })
  );
}

export function isGenuine(terms: TrailTerms, { seal, check }: StoredSeal): boolean {
  const chain = chainOf(terms, seal);
  return chain !== undefined && check === checkOf(chain, seal);
}

function chainOf({ tenant, secrets }: TrailTerms, { secretId }: Seal): Chain | undefined {
  const secret = secrets.find((known) => secretIdOf(known) === secretId);
  return secret === undefined ? undefined : { tenant, secret };
}

function judgeBeginning(chain: Chain, { stored, before, keptFrom }: SealEvidence): Break | undefined {
  const { seal } = stored;
  const begin = beginOf(seal);
  if (before === undefined) {
    if (begin > keptFrom) return { sequence: keptFrom, why: "seal_missing" };
    // The very first hash is known: nothing was sealed before it.
    return begin === 1 && seal.previous !== firstHash(chain)
      ? { sequence: 1, why: "hash_changed" }
      : undefined;
  }
  const { sequence, hash } = headOf(before);
  if (begin !== sequence + 1) return { sequence: sequence + 1, why: "seal_missing" };
  return seal.previous === hash ? undefined : { sequence, why: "hash_changed" };
}

/** One that was missing when it should have been sealed stays a break for as long as its seal is kept. */
function judgeGaps(gaps: readonly Gap[]): Break | undefined {
  const missing = gaps.find(({ why }) => why === "missing");
  return missing === undefined ? undefined : { sequence: missing.from, why: "row_missing" };
}

function judgeRows(
  chain: Chain,
  { stored: { seal }, rows, keptFrom }: SealEvidence,
  whyDifferent: "row_changed" | "hash_changed",
): Break | undefined {
  const bySequence = new Map(rows.map((row) => [row.sequence, row]));
  let previous = linkGaps(chain, seal);
  for (const [index, hash] of seal.hashes.entries()) {
    const sequence = seal.from + index;
    const row = bySequence.get(sequence);
    if (sequence >= keptFrom) {
      if (row === undefined) return { sequence, why: "row_missing" };
      if (linkRow(chain, previous, row) !== hash) return { sequence, why: whyDifferent };
    }
    previous = hash;
  }
  return undefined;
}

export function writeSeal(chain: Chain, seal: Seal): string {
  return JSON.stringify({ ...seal, check: checkOf(chain, seal) });
}

/** Undefined when it is not a seal: somebody has written something else there. */
export function readSeal(body: string): StoredSeal | undefined {
  const value = parsed(body);
  if (typeof value !== "object" || value === null) return undefined;
  const { check, ...seal } = value as Partial<Seal> & { readonly check?: unknown };
  if (typeof check !== "string" || !isSeal(seal)) return undefined;
  return { seal, check };
}

/** Stands for a seal that cannot be read any more: the chain goes on after its first record, and is broken there. */
export function unreadableSeal(from: number): Seal {
  return { from, previous: "", gaps: [], hashes: ["unreadable"], keptFrom: 1, secretId: "" };
}

function parsed(body: string): unknown {
  try {
    return JSON.parse(body) as unknown;
  } catch {
    return undefined;
  }
}

function isSeal(seal: Partial<Seal>): seal is Seal {
  const { from, previous, gaps, hashes, keptFrom, secretId } = seal;
  return (
    Number.isSafeInteger(from) &&
    Number.isSafeInteger(keptFrom) &&
    typeof previous === "string" &&
    typeof secretId === "string" &&
    Array.isArray(hashes) &&
    hashes.length > 0 &&
    hashes.every((hash) => typeof hash === "string") &&
    Array.isArray(gaps) &&
    gaps.every(isGap)
  );
}

function isGap(value: unknown): value is Gap {
  if (typeof value !== "object" || value === null) return false;
  const { from, to, why } = value as Partial<Gap>;
  return Number.isSafeInteger(from) && Number.isSafeInteger(to) && (why === "dropped" || why === "missing");
}
