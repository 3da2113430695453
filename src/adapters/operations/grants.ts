// How runs pass their gates: what a start takes or waits for, and how a place that becomes free is handed on at once.
import {
  type GateId,
  type GatesPlan,
  headLevel,
  keepsOnlyNewest,
  type RunGates,
  tenantGate,
} from "../../domain/gates.ts";
import { isTerminal, type RunId, type TerminalStatus, unchanged } from "../../domain/run.ts";
import type { TenantId } from "../../domain/tenant.ts";
import type { Woken } from "../../ports/admission-operations.ts";
import { movesMax } from "../../ports/queue-operations.ts";
import { appendRunEvent, applyChange } from "./changes.ts";
import { setDue } from "./due.ts";
import {
  beginWait,
  endWait,
  hasWork,
  heldBy,
  isOpen,
  leaveRate,
  putPlace,
  scopeOf,
  takePlace,
} from "./gates.ts";
import {
  attend,
  bestLevelAt,
  type GatedRun,
  headOf,
  joinQueue,
  leaveQueue,
  nextGate,
  orderOf,
  planVisit,
} from "./queues.ts";
import { type Context, nowMs, type StoredRun } from "./records.ts";
import { bringEntry, grantReturn, isAway } from "./released.ts";
import { appendEntry, putState } from "./run-records.ts";
import { appendAudited, appendEvent } from "./tenants.ts";

/** What happens to others while runs pass gates: who has something in its inbox, and which gates may have become free. */
export type Moves = { readonly woken: RunId[]; readonly freed: GateId[] };

export function wokenIn(woken: readonly RunId[]): Woken {
  return woken.length === 0 ? {} : { woken };
}

type RateWait = Required<Pick<RunGates, "startsAtMs" | "rate">>;

/**
 * A new run takes its places, or waits for the first that is not free, or for its rate first. The caller stores it, and hands on
 * what that has freed.
 */
export function enterGates(
  context: Context,
  state: StoredRun,
  plan: GatesPlan | undefined,
  wait: RateWait | undefined,
): { readonly state: StoredRun; readonly moves?: Moves } {
  if (plan === undefined) {
    putPlace(context, state, tenantGate);
    return { state };
  }
  const { queueMax: _queueMax, deadlineMs, ...rest } = plan;
  const askedAtMs = nowMs(context);
  const gates = { ...rest, held: 0, askedAtMs, deadlineAtMs: askedAtMs + deadlineMs };
  const moves: Moves = { woken: [], freed: [] };
  if (wait === undefined) return { state: goOn(context, { ...state, gates }, moves), moves };
  const waiting = { ...state, status: "queued", gates: { ...gates, ...wait } } as const;
  beginWait(context, waiting);
  setDue(context, { kind: "rated", tenant: state.tenant, subject: state.runId }, wait.startsAtMs);
  return { state: waiting, moves };
}

/** Its time has come: it goes on to its gates like one that begins now. */
export function passRate(context: Context, state: GatedRun, moves: Moves): void {
  passOn(context, leaveRate(context, state), moves);
}

/** Takes places from the next gate on; where there is none, or somebody waits, the run waits as well. The caller stores it. */
function goOn(context: Context, state: GatedRun, moves: Moves): GatedRun {
  let next = state;
  for (const { gate } of state.gates.gates.slice(state.gates.held)) {
    if (!isOpen(context, state.tenant, gate)) return waitAtNext(context, next, moves);
    next = takePlace(context, next, gate);
  }
  return next;
}

function waitAtNext(context: Context, state: GatedRun, moves: Moves): GatedRun {
  const { gates, held } = state.gates;
  const atLimit = gates[held]?.atLimit ?? "queue";
  const onlyNewest = keepsOnlyNewest(atLimit);
  const newer = onlyNewest ? newerWaiting(context, state) : undefined;
  if (newer !== undefined) return giveWay(context, state, newer, moves);
  if (onlyNewest) replaceWaiting(context, state, moves);
  const level = onlyNewest ? headLevel : inheritedLevel(context, state);
  const waiting = joinQueue(context, { ...state, status: "queued" }, { level, sinceMs: nowMs(context) });
  beginWait(context, waiting);
  if (atLimit === "cancel_in_progress") cancelOldest(context, waiting, moves);
  return waiting;
}

/** Somebody more urgent may wait for a place that the run holds. */
function inheritedLevel(context: Context, state: GatedRun): number {
  const behind = heldBy(state).map((gate) => bestLevelAt(context, state.tenant, gate));
  return Math.max(state.gates.priority, ...behind);
}

/** A run that was handed on from gate to gate may come to one at which a younger one waits. */
function newerWaiting(context: Context, { tenant, gates }: GatedRun): GatedRun | undefined {
  const waiting = orderOf(context, tenant, nextGate(gates), movesMax);
  return waiting.find((other) => !isAway(other) && other.gates.askedAtMs > gates.askedAtMs);
}

function giveWay(context: Context, state: GatedRun, { runId }: GatedRun, moves: Moves): GatedRun {
  const end = { status: "cancelled", reason: `superseded_by ${runId}` } as const;
  return { ...endQueued(context, endWait(context, state), end, moves), gates: { ...state.gates, held: 0 } };
}

/** One waits at the most; more do only if the workflow said something else before. */
function replaceWaiting(context: Context, state: GatedRun, moves: Moves): void {
  const { tenant, runId } = state;
  const gate = nextGate(state.gates);
  for (const waiting of orderOf(context, tenant, gate, movesMax)) {
    // It has begun, and goes on when it has its places again.
    if (isAway(waiting)) continue;
    endQueued(context, waiting, { status: "cancelled", reason: `superseded_by ${runId}` }, moves);
  }
}

/** Members looked at to find one that is being cancelled already. */
const membersMax = 100;

function cancelOldest(context: Context, state: GatedRun, moves: Moves): void {
  const { tenant, runId } = state;
  const scope = scopeOf(tenant, nextGate(state.gates));
  const members = context.records.scan("place", scope, "", membersMax).flatMap(({ member }) => {
    const found = context.records.get("run", tenant, member.slice(17) as RunId);
    return found === undefined ? [] : [found];
  });
  const [oldest] = members;
  if (oldest === undefined || members.some(({ cancelRequested }) => cancelRequested !== undefined)) return;
  const entryId = `superseded:${runId}`;
  const reason = `superseded_by ${runId}`;
  const { actor } = state;
  appendAudited(context, tenant, { type: "cancel_requested", subject: oldest.runId, actor, detail: reason });
  const asked = { ...oldest, cancelRequested: entryId };
  if (oldest.gates?.waits !== undefined && !isAway(oldest)) {
    endQueued(context, { ...asked, gates: oldest.gates }, { status: "cancelled", reason }, moves);
    return;
  }
  putState(context, bringEntry(context, asked, { kind: "cancel", entryId, actor, reason }));
  moves.woken.push(oldest.runId);
}

type End = { readonly status: TerminalStatus; readonly reason: string };

/** Ends a run that has not begun: it has no steps, jobs or children. Its places are handed on by the caller. */
export function endQueued(
  context: Context,
  state: GatedRun,
  { status, reason }: End,
  moves: Moves,
): StoredRun {
  moves.freed.push(...heldBy(state));
  const timeline = JSON.stringify([{ type: endTypes[status] ?? "run_failed", reason }]);
  const change = { ...unchanged, status, timeline, news: reason };
  const commitId = `${state.runId}:unbegun`;
  const ended = applyChange(context, { ...state, endReason: reason }, { commitId, change });
  putState(context, ended);
  appendRunEvent(context, ended, change);
  return ended;
}

const endTypes: Partial<Record<TerminalStatus, string>> = {
  cancelled: "run_cancelled",
  timed_out: "run_timed_out",
};

/** Of a run that was changed, and has perhaps ended or given its places back by that. */
export function handOnPlaces(context: Context, before: StoredRun, after: StoredRun): readonly RunId[] {
  const freed = isTerminal(after.status) || isAway(after) ? heldBy(before) : [];
  if (freed.length === 0) return [];
  return handOnGates(context, before.tenant, { freed: [...freed], woken: [] }).woken;
}

/** Hands on what has become free, in the operation that has freed it. Gives the runs whose inboxes have something. */
export function handOnGates(context: Context, tenant: TenantId, { freed, woken }: Moves): Moves {
  if (context.records.size("gateQueue", tenant) === 0) return { woken, freed: [] };
  const moves: Moves = { woken: [...woken], freed: [...freed] };
  const left: GateId[] = [];
  for (let granted = 0, gate = moves.freed.shift(); gate !== undefined; gate = moves.freed.shift()) {
    while (hasWork(context, tenant, gate) && granted < movesMax) {
      granted += 1;
      if (grant(context, tenant, gate, moves) === "nobody") break;
    }
    if (hasWork(context, tenant, gate)) left.push(gate);
    else planVisit(context, tenant, gate, undefined);
  }
  for (const gate of left) attend(context, tenant, gate);
  return { woken: moves.woken, freed: left };
}

/** The head of the queue gets the place and goes on. */
function grant(context: Context, tenant: TenantId, gate: GateId, moves: Moves): "granted" | "nobody" {
  const head = headOf(context, tenant, gate);
  if (head === undefined) return "nobody";
  if (isAway(head)) {
    const { state, isBack } = grantReturn(context, head, gate);
    putState(context, state);
    if (isBack) moves.woken.push(state.runId);
    return "granted";
  }
  const granted = takePlace(context, leaveQueue(context, head, "granted"), gate);
  passOn(context, granted, moves);
  return "granted";
}

/** A run that waited goes on from gate to gate, and begins or waits again. */
function passOn(context: Context, state: GatedRun, moves: Moves): void {
  const next = goOn(context, state, moves);
  if (isTerminal(next.status)) return;
  if (next.gates.waits === undefined) {
    admitQueued(context, endWait(context, next), moves);
    return;
  }
  putState(context, next);
  appendQueued(context, next);
}

function admitQueued(context: Context, state: GatedRun, moves: Moves): void {
  const { tenant, runId, actor, workflow } = state;
  const begun = { ...state, status: "pending", updatedAtMs: nowMs(context) } as const;
  putState(context, appendEntry(context, begun, { kind: "started", entryId: runId }));
  appendEvent(context, tenant, { type: "run_admitted", subject: runId, actor, detail: workflow });
  moves.woken.push(runId);
}

export function appendQueued(context: Context, { tenant, runId, actor, workflow, gates }: StoredRun): void {
  if (gates === undefined) return;
  const detail = `${workflow} ${gates.rate ?? nextGate(gates)}`;
  appendEvent(context, tenant, { type: "run_queued", subject: runId, actor, detail });
}
