// The queues of gates: runs wait by level, then by the tag of their fairness key, then in the order in which they came.
import {
  chooseHead,
  type GateId,
  headLevel,
  type LevelHead,
  levels,
  noFairnessKey,
  type QueuePlace,
  type RunGates,
  returnLevel,
  tagAfter,
  virtualUnit,
} from "../../domain/gates.ts";
import type { RunId } from "../../domain/run.ts";
import type { TenantId } from "../../domain/tenant.ts";
import { movesMax } from "../../ports/queue-operations.ts";
import { clearDue, setDue } from "./due.ts";
import { type Context, nowMs, orderedNumber, type RecordKinds, type StoredRun } from "./records.ts";

type Queue = RecordKinds["gateQueue"];

/** A run that was started with a plan of its gates. */
export type GatedRun = StoredRun & { readonly gates: RunGates };

/** It has not begun and waits, or comes back: it is among the runs that wait. */
export function isAmongWaiting(state: StoredRun): state is GatedRun {
  return isQueued(state) || state.gates?.waits !== undefined;
}

/** It has not begun, and waits at a gate or for its rate. */
export function isQueued(state: StoredRun): state is GatedRun {
  const { waits, startsAtMs, released } = state.gates ?? {};
  return released !== true && (waits !== undefined || startsAtMs !== undefined);
}

/** Absent when nobody waits. A tenant without any queue pays for no read. */
export function readQueue({ records }: Context, tenant: TenantId, gate: GateId): Queue | undefined {
  return records.size("gateQueue", tenant) === 0 ? undefined : records.get("gateQueue", tenant, gate);
}

/** How many runs wait at a gate, from a level on. */
export function waitingAt(context: Context, tenant: TenantId, gate: GateId, fromLevel = 0): number {
  const waiting = levelsOf(readQueue(context, tenant, gate)).filter((level) => level >= fromLevel);
  return waiting.reduce((sum, level) => sum + sizeOf(context, scopeOf(tenant, gate, level)), 0);
}

/** The run waits for a place in its next gate. The caller stores the state. */
export function joinQueue(
  context: Context,
  state: GatedRun,
  { level, sinceMs }: Omit<QueuePlace, "arrival">,
) {
  const { records } = context;
  const { tenant, runId, gates } = state;
  const gate = nextGate(gates);
  const queue = readQueue(context, tenant, gate) ?? { arrivals: 0, levels: {} };
  const scope = scopeOf(tenant, gate, level);
  const key = keyOf(state, level);
  const arrival = queue.arrivals + 1;
  const virtual = queue.levels[level] ?? 0;
  const tags = { ...queue.levels, [level]: virtual };
  records.put("gateQueue", tenant, gate, { ...queue, arrivals: arrival, levels: tags });
  records.put("queuedRun", scope, runMember(key, arrival, runId), {});
  if (records.get("lineKey", scope, key) === undefined) {
    const tag = level === headLevel ? tagBeforeAll(context, scope) : tagAfter(virtual, gates.weight);
    putKey(context, scope, key, { tag, arrival });
  }
  return { ...state, gates: { ...gates, waits: { level, sinceMs, arrival } } };
}

/** What is granted moves on the tag of its key, and the virtual time of the level. The caller stores the state. */
export function leaveQueue(context: Context, state: GatedRun, why: "granted" | "gone"): GatedRun {
  const { tenant, runId } = state;
  const { waits, ...gates } = state.gates;
  const left = { ...state, gates };
  if (waits === undefined) return left;
  const { level, arrival } = waits;
  const entry = { level, key: keyOf(state, level), arrival, runId };
  takeOut(context, tenant, nextGate(gates), entry, why === "granted" ? gates.weight : undefined);
  return left;
}

type Entry = Waiting & { readonly level: number; readonly key: string };

/** `grantedWeight` is absent when nothing was granted. */
function takeOut(
  context: Context,
  tenant: TenantId,
  gate: GateId,
  { level, key, arrival, runId }: Entry,
  grantedWeight?: number,
): void {
  const { records } = context;
  const scope = scopeOf(tenant, gate, level);
  records.erase("queuedRun", scope, runMember(key, arrival, runId));
  const queue = readQueue(context, tenant, gate);
  const line = records.get("lineKey", scope, key);
  if (queue === undefined) return;
  const next = firstOf(context, scope, key);
  const before = queue.levels[level] ?? 0;
  const virtual = grantedWeight === undefined ? before : Math.max(before, line?.tag ?? 0);
  if (line !== undefined && (next === undefined || grantedWeight !== undefined)) {
    eraseKey(context, scope, key, line);
  }
  if (next !== undefined && grantedWeight !== undefined) {
    putKey(context, scope, key, { tag: tagAfter(virtual, grantedWeight), arrival: next.arrival });
  }
  const { [level]: _gone, ...others } = queue.levels;
  const tags = sizeOf(context, scope) === 0 ? others : { ...others, [level]: virtual };
  putQueue(context, tenant, gate, { ...queue, levels: tags });
}

/** The run that is granted next. */
export function headOf(context: Context, tenant: TenantId, gate: GateId): GatedRun | undefined {
  const heads = levelsOf(readQueue(context, tenant, gate)).flatMap((level) => {
    const state = headOfLevel(context, tenant, gate, level);
    return state === undefined ? [] : [headFrom(level, state)];
  });
  return chooseHead(heads, nowMs(context))?.state;
}

/** What is in the queue and does not wait there, however that came, is taken out when it is at the head. */
function headOfLevel(context: Context, tenant: TenantId, gate: GateId, level: number): GatedRun | undefined {
  const scope = scopeOf(tenant, gate, level);
  for (let tries = 0; tries < movesMax; tries += 1) {
    const [first] = context.records.scan("line", scope, "", 1);
    if (first === undefined) return undefined;
    const key = keyIn(first.member);
    const entry = firstOf(context, scope, key) ?? { arrival: 0, runId: "" as RunId };
    const [state] = waitingRun(context, tenant, entry.runId);
    const { waits } = state?.gates ?? {};
    if (waits?.arrival === entry.arrival && waits.level === level) return state;
    takeOut(context, tenant, gate, { ...entry, level, key });
    if (firstOf(context, scope, key) === undefined) context.records.erase("line", scope, first.member);
  }
  return undefined;
}

/** Whether a run that waits is where it does. */
export function isInQueue(context: Context, state: GatedRun): boolean {
  const { tenant, runId, gates } = state;
  if (gates.waits === undefined) return false;
  const { level, arrival } = gates.waits;
  const gate = nextGate(gates);
  const scope = scopeOf(tenant, gate, level);
  const key = keyOf(state, level);
  return (
    readQueue(context, tenant, gate)?.levels[level] !== undefined &&
    context.records.get("lineKey", scope, key) !== undefined &&
    context.records.get("queuedRun", scope, runMember(key, arrival, runId)) !== undefined
  );
}

/** The best level that somebody waits at now, an operator's moves aside: what a run that holds a place there inherits. */
export function bestLevelAt(context: Context, tenant: TenantId, gate: GateId): number {
  const [best = 0] = levelsOf(readQueue(context, tenant, gate)).filter((level) => level < headLevel);
  return best;
}

/** Those that wait, in the order in which they would be granted now, as long as nobody comes or goes. */
export function orderOf(
  context: Context,
  tenant: TenantId,
  gate: GateId,
  limit: number,
): readonly GatedRun[] {
  const queue = readQueue(context, tenant, gate);
  const lines = levelsOf(queue).map((level) => lineOf(context, tenant, gate, { level, limit }));
  const order: GatedRun[] = [];
  while (order.length < limit) {
    const heads = lines.flatMap((line) => {
      const state = line.keys[0]?.runs[0];
      return state === undefined ? [] : [{ ...headFrom(line.level, state), line }];
    });
    const head = chooseHead(heads, nowMs(context));
    if (head === undefined) break;
    order.push(head.state);
    grantIn(head.line, head.state.gates.weight);
  }
  return order;
}

type KeyInLine = { tag: number; arrival: number; readonly runs: GatedRun[] };
type Line = { readonly level: number; readonly keys: KeyInLine[] };

function lineOf(
  context: Context,
  tenant: TenantId,
  gate: GateId,
  { level, limit }: { readonly level: number; readonly limit: number },
): Line {
  const scope = scopeOf(tenant, gate, level);
  const keys = context.records.scan("line", scope, "", limit).map(({ member }) => ({
    ...{ tag: Number(member.slice(0, 16)), arrival: Number(member.slice(17, 33)) },
    runs: runsOf(context, scope, keyIn(member), limit).flatMap(({ runId }) =>
      waitingRun(context, tenant, runId),
    ),
  }));
  return { level, keys };
}

/** As a grant does it to what is stored. */
function grantIn({ keys }: Line, weight: number): void {
  const [first] = keys;
  if (first === undefined) return;
  first.runs.shift();
  first.tag = tagAfter(first.tag, weight);
  first.arrival = first.runs[0]?.gates.waits?.arrival ?? 0;
  if (first.runs.length === 0) keys.shift();
  keys.sort((one, other) => one.tag - other.tag || one.arrival - other.arrival);
}

function headFrom(level: number, state: GatedRun): LevelHead & { readonly state: GatedRun } {
  const { waits, agingMs } = state.gates;
  return { level, sinceMs: waits?.sinceMs ?? 0, agingMs, state };
}

/** What runs out of its time in the attention index is taken out of it with the queue. */
function putQueue(context: Context, tenant: TenantId, gate: GateId, queue: Queue): void {
  if (Object.keys(queue.levels).length > 0) {
    context.records.put("gateQueue", tenant, gate, queue);
    return;
  }
  clearDue(context, { kind: "gate", tenant, subject: gate }, queue.dueAtMs);
  context.records.erase("gateQueue", tenant, gate);
}

/** Puts a gate into the attention index, or takes it out of it (`undefined`). */
export function planVisit(context: Context, tenant: TenantId, gate: GateId, atMs: number | undefined): void {
  const queue = readQueue(context, tenant, gate);
  if (queue === undefined || (queue.dueAtMs === undefined && atMs === undefined)) return;
  const { dueAtMs, ...rest } = queue;
  clearDue(context, { kind: "gate", tenant, subject: gate }, dueAtMs);
  if (atMs !== undefined) setDue(context, { kind: "gate", tenant, subject: gate }, atMs);
  putQueue(context, tenant, gate, atMs === undefined ? rest : { ...rest, dueAtMs: atMs });
}

/** The sweep finds the gate at once, unless it is planned already. */
export function attend(context: Context, tenant: TenantId, gate: GateId): void {
  const planned = readQueue(context, tenant, gate)?.dueAtMs;
  if (planned === undefined) planVisit(context, tenant, gate, nowMs(context));
}

/** The gate at which a run waits, or would: it holds places in those before. */
export function nextGate({ gates, held }: RunGates): GateId {
  const next = gates[held];
  if (next === undefined) throw new Error("a run that holds all its places waits for none");
  return next.gate;
}

/** None, if it does not wait. */
function waitingRun({ records }: Context, tenant: TenantId, runId: RunId): readonly GatedRun[] {
  const state = records.get("run", tenant, runId);
  return state?.gates?.waits === undefined ? [] : [{ ...state, gates: state.gates }];
}

type Waiting = { readonly arrival: number; readonly runId: RunId };

function firstOf(context: Context, scope: string, key: string): Waiting | undefined {
  return runsOf(context, scope, key, 1)[0];
}

function runsOf({ records }: Context, scope: string, key: string, limit: number): readonly Waiting[] {
  const rows = records.scan("queuedRun", scope, `${key} `, limit);
  return rows
    .filter(({ member }) => member.startsWith(`${key} `))
    .map(({ member }) => ({
      arrival: Number(member.slice(key.length + 1, key.length + 17)),
      runId: member.slice(key.length + 18) as RunId,
    }));
}

function putKey(context: Context, scope: string, key: string, line: RecordKinds["lineKey"]): void {
  context.records.put("lineKey", scope, key, line);
  context.records.put("line", scope, lineMember(key, line), {});
}

function eraseKey(context: Context, scope: string, key: string, line: RecordKinds["lineKey"]): void {
  context.records.erase("lineKey", scope, key);
  context.records.erase("line", scope, lineMember(key, line));
}

/** At the head level the last one that came is the first: it was put before all others. */
function tagBeforeAll({ records }: Context, scope: string): number {
  const [first] = records.scan("line", scope, "", 1);
  return first === undefined ? virtualUnit : Number(first.member.slice(0, 16)) - 1;
}

function keyOf({ runId, gates }: GatedRun, level: number): string {
  if (level === headLevel) return runId;
  return level === returnLevel ? noFairnessKey : gates.fairnessKey;
}

function sizeOf({ records }: Context, scope: string): number {
  return records.size("queuedRun", scope);
}

/** The highest first. */
function levelsOf(queue: Queue | undefined): readonly number[] {
  return queue === undefined ? [] : levels.filter((level) => queue.levels[level] !== undefined);
}

function runMember(key: string, arrival: number, runId: RunId): string {
  return `${key} ${orderedNumber(arrival)} ${runId}`;
}

function lineMember(key: string, { tag, arrival }: RecordKinds["lineKey"]): string {
  return `${orderedNumber(tag)} ${orderedNumber(arrival)} ${key}`;
}

function keyIn(lineMember: string): string {
  return lineMember.slice(34);
}

function scopeOf(tenant: TenantId, gate: GateId, level: number): string {
  return `${tenant}/${gate}/${String(level).padStart(2, "0")}`;
}
