// The words in which a change of settings, or what was refused in a minute, stands in the audit trail.
import type { Decider, Decision } from "./approval.ts";
import { formatTime } from "./engine/rfc3339.ts";

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
  // Names of topics and pools stand as they were given; what is below them are fields again.
  const shown = path.includes(".") ? snakeCase : (member: string) => member;
  return members.flatMap((member) => describeField(`${path}.${shown(member)}`, old[member], after[member]));
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
