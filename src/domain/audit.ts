// The audit trail of one tenant: its event rows, how they are chained and sealed, and how a change is worded.
import { createHash, createHmac } from "node:crypto";
import type { Decider, Decision } from "./approval.ts";
import { formatTime } from "./engine/rfc3339.ts";
import type { TenantId } from "./tenant.ts";

/** What makes the hashes of one trail. Without a secret anybody can compute them; with one only who knows it. */
export type Chain = { readonly tenant: TenantId; readonly secret: string };

/** Records that were never sealed: dropped as the store drops the oldest, or missing although they should be kept. */
export type Gap = { readonly from: number; readonly to: number; readonly why: "dropped" | "missing" };

/** The hashes of some records in a row. */
export type Seal = {
  /** The first record that is sealed here; there is always one. */
  readonly from: number;
  /** The hash of whatever was sealed before, ahead of the gaps. */
  readonly previous: string;
  /** What lies between the last record that was sealed before and the first one here. */
  readonly gaps: readonly Gap[];
  readonly hashes: readonly string[];
  /** Whatever is older than this record had been dropped when this was sealed, and only that may be gone later. */
  readonly keptFrom: number;
  /** Names the secret without telling it; empty without one. */
  readonly secretId: string;
};

export type Head = { readonly sequence: number; readonly hash: string };

/** Of one seal. Each write of a seal writes all of its hashes: 250 are 11 KB, and a quiet tenant writes half of that for a record. */
export const sealedRowsMax = 250;

export function firstHash(chain: Chain): string {
  return hashOf(chain, ["interlock audit trail 2", chain.tenant]);
}

/** The hash of a record: over the one before it and every field of the row. */
export function linkRow(chain: Chain, previous: string, row: EventRow): string {
  const { sequence, atMs, type, subject, actor, detail } = row;
  return hashOf(chain, [previous, chain.tenant, sequence, atMs, type, subject, actor, detail]);
}

/** The chain goes over a gap as well: it can neither be added nor removed later. */
function linkGap(chain: Chain, previous: string, { from, to, why }: Gap): string {
  return hashOf(chain, [previous, chain.tenant, "gap", from, to, why]);
}

export function linkGaps(chain: Chain, { previous, gaps }: Pick<Seal, "previous" | "gaps">): string {
  return gaps.reduce((hash, gap) => linkGap(chain, hash, gap), previous);
}

/** Over everything that a seal says: who does not know the secret cannot change any of it. */
export function checkOf(chain: Chain, seal: Seal): string {
  const { from, previous, gaps, hashes, keptFrom, secretId } = seal;
  const gapFields = gaps.map((gap) => [gap.from, gap.to, gap.why]);
  return hashOf(chain, [
    "interlock seal 1",
    chain.tenant,
    from,
    previous,
    gapFields,
    hashes,
    keptFrom,
    secretId,
  ]);
}

export function secretIdOf(secret: string): string {
  return secret === ""
    ? ""
    : createHash("sha256").update(`interlock audit secret 1 ${secret}`).digest("base64url").slice(0, 12);
}

/** Where a seal begins, its gaps among it. */
export function beginOf({ gaps, from }: Seal): number {
  return gaps[0]?.from ?? from;
}

export function headOf({ from, hashes }: Seal): Head {
  const hash = hashes.at(-1);
  if (hash === undefined) throw new Error("a seal has a hash");
  return { sequence: from + hashes.length - 1, hash };
}

/** Rows as the store has given them, with the numbers of the oldest that it keeps and of the newest. */
export type TrailReading = {
  readonly events: readonly EventRow[];
  readonly first: number;
  readonly last: number;
};

type SealTerms = {
  readonly chain: Chain;
  /** The newest seal; `closed` if nothing may be added to it: it is damaged, or of another secret. */
  readonly newest: { readonly seal: Seal; readonly state: "open" | "closed" } | undefined;
  /** Rows that the store keeps. */
  readonly rowsKept: number;
};

/** The seals to be written for these rows, in order: the first may be the newest one with more hashes. */
export function sealRows({ chain, newest, rowsKept }: SealTerms, reading: TrailReading): readonly Seal[] {
  const keptFrom = oldestKept(newest?.seal.keptFrom ?? reading.first, reading.last, rowsKept);
  const secretId = secretIdOf(chain.secret);
  const seals: Seal[] = [];
  let head: Head = newest === undefined ? { sequence: 0, hash: firstHash(chain) } : headOf(newest.seal);
  let open = newest?.state === "open" ? newest.seal : undefined;
  for (const row of reading.events) {
    const gaps = gapsBetween(head.sequence + 1, row.sequence - 1, keptFrom);
    const isFull = open !== undefined && open.hashes.length >= sealedRowsMax;
    const begins = open === undefined || isFull || gaps.length > 0;
    if (begins && open !== undefined && open !== newest?.seal) seals.push(open);
    const base: Seal =
      begins || open === undefined
        ? { from: row.sequence, previous: head.hash, gaps, hashes: [], keptFrom, secretId }
        : open;
    const before = begins ? linkGaps(chain, base) : head.hash;
    head = { sequence: row.sequence, hash: linkRow(chain, before, row) };
    open = { ...base, keptFrom, hashes: [...base.hashes, head.hash] };
  }
  return open === undefined || open === newest?.seal ? seals : [...seals, open];
}

/** The oldest record that must still be there. It grows only: what was dropped does not come back. */
export function oldestKept(knownKeptFrom: number, last: number, rowsKept: number): number {
  return Math.max(1, knownKeptFrom, last - rowsKept + 1);
}

function gapsBetween(from: number, to: number, keptFrom: number): readonly Gap[] {
  const gaps: readonly Gap[] = [
    { from, to: Math.min(to, keptFrom - 1), why: "dropped" },
    { from: Math.max(from, keptFrom), to, why: "missing" },
  ];
  return gaps.filter((gap) => gap.from <= gap.to);
}

function hashOf({ secret }: Chain, fields: readonly unknown[]): string {
  const text = JSON.stringify(fields);
  const hash = secret === "" ? createHash("sha256") : createHmac("sha256", secret);
  return hash.update(text).digest("base64url");
}

export const eventTypes = [
  "run_queued",
  "run_moved",
  "run_admitted",
  "run_changed",
  "run_ended",
  "run_deleted",
  "run_reopened",
  "cancel_requested",
  "approval_requested",
  "approval_decided",
  "tenant_changed",
  "document_saved",
  "document_removed",
  "lock_broken",
  "letter_retried",
  "records_dropped",
  "budget_crossed",
] as const;
export type EventType = (typeof eventTypes)[number];

export type EventRow = {
  /** Gap-free per tenant, starting at 1; assigned inside the operation. */
  readonly sequence: number;
  readonly atMs: number;
  readonly type: EventType;
  /** The run, approval, document (`<collection>/<id>`), tenant or budget that changed. */
  readonly subject: string;
  readonly actor: string;
  /** The run's new version and status, the decision and the hash of what was shown, or what was changed. */
  readonly detail: string;
};

/** A row's detail stays short; the rest can be read from the record itself. */
const detailMax = 300;

type Fields = Readonly<Record<string, unknown>>;

/** What differs, as `max_concurrent_runs=5 stopped=unset`, and a token that makes the change recognisable when it is repeated. */
export function describeChange(before: Fields, after: Fields, token: string): string {
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])]
    .filter((name) => name !== bookkeeping)
    .sort();
  const words = names.flatMap((name) => describeField(snakeCase(name), before[name], after[name]));
  return cut(words.join(" "), token);
}

/** Says how old the list of revoked keys is, which is shown itself. */
const bookkeeping = "revokedSince";

function describeField(path: string, before: unknown, after: unknown): readonly string[] {
  if (textOf(before) === textOf(after)) return [];
  if (after === undefined) return [`${path}=unset`];
  if (Array.isArray(after)) return describeList(path, Array.isArray(before) ? before : [], after);
  if (!isFields(after)) return [`${path}=${textOf(after)}`];
  const old = isFields(before) ? before : {};
  const members = [...new Set([...Object.keys(old), ...Object.keys(after)])].sort();
  // Names of topics, pools and policies stand as they were given; what else is below the first level are fields.
  const isGiven = (member: string) => !path.includes(".") || member.includes(".");
  return members.flatMap((member) => {
    const shown = isGiven(member) ? member : snakeCase(member);
    return describeField(`${path}.${shown}`, old[member], after[member]);
  });
}

/** Lists grow at one end and lose at the other: what has come and what has gone says it all. */
function describeList(
  name: string,
  before: readonly unknown[],
  after: readonly unknown[],
): readonly string[] {
  const [old, now] = [before, after].map((items) => items.map(textOf));
  return [
    ...(now ?? []).filter((item) => !old?.includes(item)).map((item) => `${name}=+${item}`),
    ...(old ?? []).filter((item) => !now?.includes(item)).map((item) => `${name}=-${item}`),
  ];
}

function isFields(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Text that could be taken for more than one word is quoted: a name must not look like another setting. */
function textOf(value: unknown): string {
  const isWord = typeof value === "string" && /^[\w.:@/+-]+$/.test(value);
  return isWord ? value : (JSON.stringify(value) ?? "unset");
}

type Decided = { readonly decision: Decision; readonly hash: string; readonly decider?: Decider };

/** `approved <hash>`, and then who is behind the key and who made it. */
export function decisionDetail({ decision, hash, decider }: Decided): string {
  if (decider === undefined) return `${decision} ${hash}`;
  const { owner, role, madeBy } = decider;
  return `${decision} ${hash} by=${textOf(owner)} role=${textOf(role)} made_by=${textOf(madeBy)}`;
}

function snakeCase(name: string): string {
  return name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

/** `2026-11-15T21:05Z forbidden=12 stale_version=1 by gateway-1`, the most frequent first. */
export function describeRefusals(
  minuteMs: number,
  counts: ReadonlyMap<string, number>,
  instance: string,
): string {
  const words = [...counts]
    .sort(([leftCode, left], [rightCode, right]) => right - left || (leftCode < rightCode ? -1 : 1))
    .map(([code, count]) => `${code}=${count}`);
  const minute = `${formatTime(minuteMs).slice(0, 16)}Z`;
  return cut([minute, ...words].join(" "), `by ${instance}`);
}

/** The end stays whole: it is what tells two changes apart. */
function cut(text: string, end: string): string {
  if (text === "") return end;
  const room = Math.max(0, detailMax - end.length - 1);
  const characters = [...text];
  const shown = characters.length <= room ? text : `${characters.slice(0, Math.max(0, room - 1)).join("")}…`;
  return shown === "" ? end : `${shown} ${end}`;
}
