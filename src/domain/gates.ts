// Gates: limits on how many runs are active at once, and the order in which runs that wait for a place get one.
import { hash } from "node:crypto";
import type { RateId } from "./rates.ts";
import type { Brand, TenantSettings } from "./tenant.ts";

/**
 * `by-key.<workflow>.<hash of the key's expression>.<hash of the key's value>`, `by-workflow.<workflow>`, `named.<name>` or
 * `tenant`. As texts they are in the order in which places are taken: two workflows that name the same gates in different
 * orders cannot wait for each other.
 */
export type GateId = Brand<string, "GateId">;

/** Every run that has gates takes the tenant's own last. */
export const tenantGate = "tenant" as GateId;

/** What a start does that finds the gate full, or somebody waiting there. */
export const atLimitChoices = ["reject", "queue", "cancel_in_progress", "replace_queued"] as const;
export type AtLimit = (typeof atLimitChoices)[number];

/** With these one run waits at the most, the newest. */
export function keepsOnlyNewest(atLimit: AtLimit): boolean {
  return atLimit === "cancel_in_progress" || atLimit === "replace_queued";
}

export type GatePlan = { readonly gate: GateId; readonly atLimit: AtLimit };

/** How a run passes its gates: worked out before the store is asked, since operations evaluate no expressions. */
export type GatesPlan = {
  /** In the order of places, each once, the tenant's last. */
  readonly gates: readonly GatePlan[];
  /** 0 to 9, the highest first. */
  readonly priority: number;
  /** Runs of one key wait in the order they came; keys of one level share what is granted by their weights. */
  readonly fairnessKey: string;
  readonly weight: number;
  /** How many runs may wait at a gate when this one joins them. */
  readonly queueMax: number;
  /** A run that has not begun by then ends; counted from its start, across gates. */
  readonly deadlineMs: number;
  /** A run that waits at the head of its level counts one level higher after each such span. */
  readonly agingMs: number;
  /** It gives its places back while it waits for an approval or a delay, and takes them again before it goes on. */
  readonly releases?: true;
};

/** What a stored run knows of its gates. */
export type RunGates = Omit<GatesPlan, "queueMax" | "deadlineMs"> & {
  /** When it was started; its header says when it was admitted, once it is. */
  readonly askedAtMs: number;
  /** It ends if it has not begun by then. */
  readonly deadlineAtMs: number;
  /** It holds places in so many of them, from the first on: in all of them once it is admitted. */
  readonly held: number;
  /** It waits for a place in the next one; absent once it has them all. */
  readonly waits?: QueuePlace;
  /** It waits for its rate, before its first gate, until then; absent afterwards. */
  readonly startsAtMs?: number;
  /** The rate that makes it wait. */
  readonly rate?: RateId;
  /** It has begun, and has given its places back. Nobody applies its entries before it has them again. */
  readonly released?: true;
};

export type QueuePlace = {
  readonly level: number;
  /** Grows by one with every run that joins the queue of this gate. */
  readonly arrival: number;
  /** When it came to this level of this queue. */
  readonly sinceMs: number;
};

export const prioritiesMax = 9;
export const defaultPriority = 5;
export const weightMax = 1_000;
export const gatesPerWorkflowMax = 4;

/** Above all priorities: an operator moved the run there, or its gate keeps only the newest. */
export const headLevel = 10;

/**
 * Above everything: runs that go on, in the order in which they came back. They finish what was begun, and there is an end to
 * them: those that may come back have begun before.
 */
export const returnLevel = 11;

/** All levels, the highest first. */
export const levels: readonly number[] = Array.from(
  { length: returnLevel + 1 },
  (_, index) => returnLevel - index,
);

/** What is granted to one key moves its tag on by this over its weight: without remainder for weights up to 16. */
export const virtualUnit = 7_207_200;

/**
 * The tag of a key that comes to a level, and of one to which something was granted, when more of it waits. The level's virtual
 * time is the greatest tag that was granted, so a key that went and came again is not ahead of where it was: none is remembered.
 */
export function tagAfter(virtual: number, weight: number): number {
  return virtual + Math.floor(virtualUnit / weight);
}

export type LevelHead = { readonly level: number; readonly sinceMs: number; readonly agingMs: number };

/** The head that is granted next: by its level and its age, then by how long it has waited, then by its level. */
export function chooseHead<Head extends LevelHead>(heads: readonly Head[], nowMs: number): Head | undefined {
  let best: Head | undefined;
  for (const head of heads) if (best === undefined || isBefore(head, best, nowMs)) best = head;
  return best;
}

function isBefore(one: LevelHead, other: LevelHead, nowMs: number): boolean {
  const difference = agedLevel(one, nowMs) - agedLevel(other, nowMs);
  if (difference !== 0) return difference > 0;
  return one.sinceMs === other.sinceMs ? one.level > other.level : one.sinceMs < other.sinceMs;
}

/** No age lifts a run above the highest priority. */
function agedLevel({ level, sinceMs, agingMs }: LevelHead, nowMs: number): number {
  if (level >= prioritiesMax) return level;
  return Math.min(prioritiesMax, level + Math.floor(Math.max(0, nowMs - sinceMs) / agingMs));
}

/** Where the limit of a gate is kept: with the tenant's settings, or with the current revision of its workflow. */
type LimitPlace =
  | { readonly kind: "tenant" }
  | { readonly kind: "named"; readonly name: string }
  | { readonly kind: "workflow"; readonly workflow: string; readonly spec: string };

/** The spec of a gate without a key. */
export const wholeWorkflow = "-";

export function limitPlaceOf(gate: GateId): LimitPlace {
  if (gate === tenantGate) return { kind: "tenant" };
  const dot = gate.indexOf(".");
  const rest = gate.slice(dot + 1);
  if (gate.startsWith("named.")) return { kind: "named", name: rest };
  if (gate.startsWith("by-workflow.")) return { kind: "workflow", workflow: rest, spec: wholeWorkflow };
  const parts = rest.split(".");
  return { kind: "workflow", workflow: parts.slice(0, -2).join("."), spec: parts.at(-2) ?? "" };
}

const gatePattern = /^(?:tenant|(?:by-key|by-workflow|named)\.[A-Za-z0-9._-]{1,160})$/;

export function parseGateId(text: string): GateId | undefined {
  return gatePattern.test(text) ? (text as GateId) : undefined;
}

export function namedGate(name: string): GateId {
  return `named.${name}` as GateId;
}

export function workflowGate(workflow: string): GateId {
  return `by-workflow.${workflow}` as GateId;
}

/** `spec` is `specOf` the key's expression. */
export function keyedGate(workflow: string, spec: string, key: string): GateId {
  return `by-key.${workflow}.${spec}.${keyHashOf(key)}` as GateId;
}

/** A key's value as the ids of gates, rates and budgets have it. */
export function keyHashOf(key: string): string {
  return hash("sha256", key).slice(0, 32);
}

export function specOf(keyExpression: string): string {
  return hash("sha256", keyExpression).slice(0, 12);
}

export function fairnessKeyOf(value: string): string {
  return hash("sha256", value).slice(0, 16);
}

/** Of runs whose workflow names no key: they are all one customer. */
export const noFairnessKey = "-";

/** By spec, as the current revision of a workflow has them. */
export type WorkflowLimits = Readonly<Record<string, number>>;

/** A gate without a limit lets everybody through: a workflow that was saved without it, or a name that nobody has set. */
export function settingsLimit(
  settings: TenantSettings,
  place: Exclude<LimitPlace, { kind: "workflow" }>,
): number | undefined {
  return place.kind === "tenant" ? settings.maxConcurrentRuns : settings.gates?.[place.name]?.max;
}

/** What a refusal says besides its code at a gate other than the tenant's own, which is what `max_concurrent_runs` limits. */
export function refineGate({ gate }: Readonly<Record<string, unknown>>) {
  if (typeof gate !== "string") return {};
  const detail = `the gate ${gate} is full: repeat after Retry-After with the same key, end one of the runs that hold its places, or raise its limit`;
  return { rateLimit: gate, detail };
}
