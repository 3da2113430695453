// Which answers may have had an effect, where an operation may write, and how many audit rows its changes call for.

import type { StoredRun } from "../../../src/adapters/operations/records.ts";
import type { EventRow, EventType } from "../../../src/domain/audit.ts";
import { isTerminal, parseRunId } from "../../../src/domain/run.ts";
import { partitionLabel, partitionOf, type TenantId } from "../../../src/domain/tenant.ts";
import type { StoreExecution } from "../../../src/testing/simulated-store.ts";
import { mustHold } from "../invariants/violation.ts";
import type { Change } from "./journaled-records.ts";
import { type KnownState, tenantOf } from "./known-state.ts";
import { isRemoval } from "./run-checks.ts";

/** Outcomes that may have changed something; all others are refusals and reads. */
const effects = new Set([
  ...["acquired", "renewed", "released", "broken", "saved", "removed"],
  ...["admitted", "queued", "created", "reserved", "cancelled", "handed_on", "moved"],
  ...["delivered", "applied", "owned", "committed", "deleted", "more", "swept"],
]);

export function mayHaveEffect({ name, request, outcome }: StoreExecution): boolean {
  if (name === "claimJobs" && outcome.kind === "judged") {
    return outcome.answers.some((answer) => answer.kind === "claimed" || keepsRefusal(answer.because));
  }
  if (name === "heartbeatJobs" && outcome.kind === "judged") {
    return outcome.answers.some(({ kind }) => kind === "extended");
  }
  // A late report is refused, and says what its claim has used; a level that lies ahead of the clock is kept anew by refusals too.
  if (name === "deliver" && (outcome.kind === "stale_claim" || outcome.kind === "run_ended")) {
    return request.entry.kind === "result";
  }
  if (outcome.kind === "start_rate_exceeded") return true;
  // A caller that is told its place in a queue may have got it just now; one that asks for none may have given its own up.
  if (name === "acquireLock" && outcome.kind === "busy") {
    return (
      outcome.ahead !== undefined || (request.lock.namespace === "public" && request.ticketMs === undefined)
    );
  }
  return effects.has(outcome.kind);
}

/** A job that is parked for its budget, and the turn of one that waits for its rate. */
function keepsRefusal(because: string): boolean {
  return because === "budget_held" || because === "topic_rate";
}

/** A revoked key has no effect from the moment of its revocation on. */
export function checkCredential({ name, request, caller }: StoreExecution, known: KnownState): void {
  if (!("credential" in request) || request.credential === undefined) return;
  const { revokedKeyIds = [] } = known.tenant(request.tenant).settings;
  mustHold(
    !revokedKeyIds.includes(request.credential),
    "revocation",
    () => `${name} by ${caller} had an effect for ${request.credential}, which is revoked`,
  );
}

/** Every operation stays within the tenant that it names, or within its partition. */
export function isWithin({ request }: StoreExecution, { kind, scope }: Change): boolean {
  const tenant = tenantOf(request);
  switch (kind) {
    case "fence":
    case "due":
    case "sweepMark": {
      const partition = "partition" in request ? request.partition : partitionOf(tenant as TenantId);
      return scope === partitionLabel(partition);
    }
    case "runRecord":
    case "inbox":
    case "timeline":
    case "job":
    case "ready":
    case "running":
    case "timer":
    case "document":
    case "ticket":
    case "ending":
    case "holding":
    case "place":
    case "line":
    case "lineKey":
    case "queuedRun":
    case "parked":
    case "charge":
      return tenant === undefined || scope.startsWith(`${tenant}/`);
    case "lock":
    case "tenant":
    case "run":
    case "active":
    case "reservation":
    case "approval":
    case "proof":
    case "keyed":
    case "event":
    case "trail":
    case "heldGate":
    case "gateQueue":
    case "queued":
    case "rateLevel":
    case "ledger":
    case "parkedLine":
    case "released":
      return tenant === undefined || scope === tenant;
  }
}

const audited: ReadonlySet<EventType> = new Set<EventType>([
  ...(["approval_decided", "cancel_requested", "tenant_changed", "lock_broken", "run_deleted"] as const),
  ...([
    "run_moved",
    "letter_retried",
    "run_reopened",
    "document_saved",
    "document_removed",
    "records_dropped",
  ] as const),
]);

/** What a person does, or what changes the rules: not what runs do, nor letters that the system writes. */
export function isAudited({ type, actor, subject }: EventRow): boolean {
  if (!audited.has(type) || parseRunId(actor) !== undefined) return false;
  return type !== "document_saved" || !subject.startsWith("deadLetter/");
}

/** One row for every commit, decision, cancellation, retry, deletion, document, setting and broken lock, and none besides. */
export function eventsWanted(execution: StoreExecution, changes: readonly Change[]): number {
  const { name } = execution;
  let wanted = hasMoved(execution, changes) ? 1 : 0;
  const reopens = changes.some(
    ({ kind, before, after }) =>
      kind === "run" &&
      before !== undefined &&
      after !== undefined &&
      isTerminal(before.status) &&
      !isTerminal(after.status),
  );
  for (const change of changes) {
    if (change.kind === "run") {
      const { before, after } = change;
      if (isRemoval(before, after)) wanted += name === "deleteRun" ? 1 : 0;
      else if (after !== undefined && after.version > (before?.version ?? 0)) wanted += 1;
      if (
        before !== undefined &&
        after !== undefined &&
        isTerminal(before.status) &&
        !isTerminal(after.status)
      )
        wanted += 1;
      if (before !== undefined && after !== undefined && after.cancelRequested !== before.cancelRequested) {
        wanted += 1;
      }
      if (before !== undefined && after !== undefined) wanted += movesAtGates(before, after);
    }
    if (change.kind === "approval" && change.after?.decisionId !== undefined && change.before !== undefined) {
      wanted += 1;
    }
    // One that is asked for; written again under its id it is asked for again.
    if (change.kind === "approval" && change.before === undefined && change.after !== undefined) wanted += 1;
    // Each percent of a budget that is reached is told by itself.
    if (change.kind === "ledger") {
      const [was, is] = [change.before?.crossed ?? 0, change.after?.crossed ?? 0];
      wanted += [50, 80, 100].filter((percent) => percent > was && percent <= is).length;
    }
    if (change.kind === "document" && (name === "putDocument" || name === "removeDocument")) wanted += 1;
    if (change.kind === "document" && name === "deliver" && change.after?.revision === 2 && !reopens)
      wanted += 1;
    if (change.kind === "lock" && name === "breakLock" && change.before?.broken === undefined) wanted += 1;
    if (change.kind === "tenant" && change.after?.version !== (change.before?.version ?? 0)) wanted += 1;
  }
  return wanted;
}

/** One that stands there already stays as it is. */
function hasMoved({ name, request, outcome }: StoreExecution, changes: readonly Change[]): boolean {
  const isMove = name === "moveQueued" && outcome.kind === "moved";
  return isMove && changes.some(({ kind, member }) => kind === "run" && member === request.runId);
}

/** A run that waited and was admitted, or waits at its next gate. */
function movesAtGates(before: StoredRun, after: StoredRun): number {
  if (before.status !== "queued" || after.version !== before.version) return 0;
  const wasRated = before.gates?.startsAtMs !== after.gates?.startsAtMs;
  return after.status !== "queued" || wasRated || after.gates?.held !== before.gates?.held ? 1 : 0;
}

/** One that was granted its place by the operation that put it into the queue: it says so, and nothing else shows it. */
export function isPassing({ type, subject, detail }: EventRow, state: StoredRun | undefined): boolean {
  if (type !== "run_queued") return false;
  const { gates } = state ?? {};
  const waitsAt = gates?.waits === undefined ? gates?.rate : gates.gates[gates.held]?.gate;
  return subject === state?.runId && detail !== `${state?.workflow} ${waitsAt}`;
}
