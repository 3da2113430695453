// The operations that admit, create, list, load and remove runs; slots are the members of the tenant's active index.
import type { JobId } from "../../domain/job.ts";
import { isTerminal, type RunHeader, type RunId } from "../../domain/run.ts";
import { quotaOf, type TenantId } from "../../domain/tenant.ts";
import type { NewRun, StartRefusal } from "../../ports/admission-operations.ts";
import type { OutcomeOf, RequestOf } from "../../ports/store.ts";
import { judgeStartBudgets } from "./budgets.ts";
import { applyChange } from "./changes.ts";
import { changeTree } from "./children.ts";
import { isCurrentWorkflow } from "./documents.ts";
import { clearDue, scheduleProof, setDue } from "./due.ts";
import { judgeGates } from "./gates.ts";
import { appendQueued, enterGates, handOnGates, wokenIn } from "./grants.ts";
import { abandonJob, claimsGranted } from "./jobs.ts";
import { forgetLock, judgeGuard, retakeLock } from "./locks.ts";
import { type GatedRun, isQueued, nextGate, waitingAt } from "./queues.ts";
import { judgeStartRates, positionInRate, rateLeft, takeStartRates } from "./rates.ts";
import {
  type Context,
  type JobState,
  lastMember,
  nowMs,
  orderedNumber,
  type RecordKind,
  type StoredRun,
} from "./records.ts";
import { hasRoomForKey, judgeKey, makeRoomForKey, putReservation, readReservation } from "./reservations.ts";
import { appendEntry, headerOf, putState, runLock, scopeOf } from "./run-records.ts";
import { appendAudited, appendEvent, isRevoked, readTenant, runsUnderWay, slots } from "./tenants.ts";

export function admit(context: Context, request: RequestOf<"admit">): OutcomeOf<"admit"> {
  const { tenant, run, credential } = request;
  const existing = context.records.get("run", tenant, run.runId);
  if (existing !== undefined) return started(context, existing, run);
  if (isRevoked(context, tenant, credential)) return { kind: "unauthenticated" };
  if (run.key !== undefined) {
    const verdict = judgeKey(context, tenant, run.runId, run.key);
    if (verdict.kind !== "unbound" && verdict.kind !== "ours") return verdict;
  }
  const refusal = judgeStart(context, tenant, run, "atomic");
  return refusal ?? startNow(context, tenant, run);
}

export function createRun(context: Context, request: RequestOf<"createRun">): OutcomeOf<"createRun"> {
  const { tenant, guard, run, credential } = request;
  const existing = context.records.get("run", tenant, run.runId);
  if (existing !== undefined) return admitted(context, existing, run);
  const guardVerdict = judgeGuard(context, tenant, guard);
  if (guardVerdict === "stale") return { kind: "stale_fence" };
  if (isRevoked(context, tenant, credential)) return { kind: "unauthenticated" };
  if (run.key !== undefined) {
    const reservation = readReservation(context, tenant, run.key.digest);
    const ours =
      reservation?.state === "pending" &&
      reservation.runId === run.runId &&
      reservation.token === guard.token &&
      reservation.fingerprint === run.key.fingerprint;
    if (!ours) return { kind: "reservation_lost" };
  }
  const refusal = judgeStart(context, tenant, run, "lock");
  if (refusal !== undefined) return refusal;
  if (guardVerdict === "retake") retakeLock(context, tenant, guard);
  const evicted = makeRoom(context, tenant, run);
  return { ...admitted(context, insertRun(context, tenant, run).state, run), ...evicted };
}

export function countActive(context: Context, request: RequestOf<"countActive">): OutcomeOf<"countActive"> {
  const stopped = readTenant(context, request.tenant).settings.stopped === true;
  return { kind: "counted", ...slots(context, request.tenant), stopped };
}

export function listActive(context: Context, request: RequestOf<"listActive">): OutcomeOf<"listActive"> {
  const { tenant, limit, describe = 0 } = request;
  const rows = context.records.scan("active", tenant, "", limit);
  const runIds = rows.map((row) => row.member.slice(17) as RunId);
  const runs = runIds.slice(0, describe).flatMap((runId) => {
    const state = context.records.get("run", tenant, runId);
    return state === undefined || state.deleted ? [] : [headerOf(state)];
  });
  return { kind: "listed", runIds, runs };
}

export function loadRun(context: Context, request: RequestOf<"loadRun">): OutcomeOf<"loadRun"> {
  const { tenant, runId } = request;
  const state = context.records.get("run", tenant, runId);
  if (state === undefined || state.deleted) return { kind: "not_found" };
  const header = headerOf(state);
  const scope = scopeOf(tenant, runId);
  if (request.records === undefined) {
    const rows = context.records.scan("runRecord", scope, "", recordsMax);
    return { kind: "run", header, records: rows.map((row) => ({ key: row.member, body: row.value.body })) };
  }
  const records = request.records.flatMap((key) => {
    const record = context.records.get("runRecord", scope, key);
    return record === undefined ? [] : [{ key, body: record.body }];
  });
  return { kind: "run", header, records };
}

/** More than any run admitted in one operation holds; larger runs are loaded by naming the records wanted. */
const recordsMax = 1000;

/** Runs looked at in one call: enough for a page, whatever the filter. */
const scannedMax = 500;

export function listRuns(context: Context, request: RequestOf<"listRuns">): OutcomeOf<"listRuns"> {
  const { tenant, before = lastMember, limit, status, workflow } = request;
  const runs: RunHeader[] = [];
  const rows = context.records.scanBack("run", tenant, before, scannedMax);
  for (const { value } of rows) {
    const wanted =
      value.deleted === undefined &&
      (status === undefined || value.status === status) &&
      (workflow === undefined || value.workflow === workflow);
    if (wanted) runs.push(headerOf(value));
    if (runs.length === limit) return { kind: "listed", runs, next: value.runId };
  }
  const last = rows.at(-1);
  return rows.length < scannedMax || last === undefined
    ? { kind: "listed", runs }
    : { kind: "listed", runs, next: last.value.runId };
}

export function readTimeline(
  context: Context,
  request: RequestOf<"readTimeline">,
): OutcomeOf<"readTimeline"> {
  const { tenant, runId, after, limit } = request;
  const state = context.records.get("run", tenant, runId);
  if (state === undefined || state.deleted) return { kind: "not_found" };
  const rows = context.records.scan("timeline", scopeOf(tenant, runId), orderedNumber(after), limit);
  return {
    kind: "timeline",
    version: state.version,
    status: state.status,
    rows: rows.map(({ member, value: { atMs, body } }) => ({ version: Number(member), atMs, body })),
  };
}

/** Both admit and createRun ask here, inside the operation: mixing the strategies can then not exceed the limit. */
function judgeStart(
  context: Context,
  tenant: TenantId,
  run: NewRun,
  strategy: "atomic" | "lock",
): StartRefusal | undefined {
  const { settings } = readTenant(context, tenant);
  if (settings.stopped === true) return { kind: "tenant_stopped" };
  const { workflow, revision, definition } = run;
  if (revision !== undefined && !isCurrentWorkflow(context, tenant, { workflow, revision, definition })) {
    return { kind: "version_conflict" };
  }
  const refusal = judgeLimits(context, tenant, run, strategy);
  if (refusal !== undefined) return refusal;
  const quota = quotaOf(settings, context.settings.quotas, "active_runs");
  if (runsUnderWay(context, tenant) >= quota)
    return { kind: "quota_reached", quota: "active_runs", limit: quota };
  if (run.key === undefined || readReservation(context, tenant, run.key.digest) !== undefined)
    return undefined;
  return hasRoomForKey(context, tenant) === "full"
    ? { kind: "idempotency_quota_reached", quota: context.settings.keysPerTenantMax }
    : undefined;
}

function judgeLimits(
  context: Context,
  tenant: TenantId,
  run: NewRun,
  strategy: "atomic" | "lock",
): StartRefusal | undefined {
  const ofRates = judgeStartRates(context, tenant, run, strategy);
  if (ofRates !== undefined && ofRates !== "waits") return ofRates;
  const refusal = judgeStartBudgets(context, tenant, run) ?? judgeGates(context, tenant, run, strategy);
  if (refusal !== undefined || ofRates === undefined) return refusal;
  const limit = context.settings.queuedPerTenantMax;
  return context.records.size("queued", tenant) >= limit ? { kind: "queue_full", limit } : undefined;
}

function startNow(context: Context, tenant: TenantId, run: NewRun) {
  const evicted = makeRoom(context, tenant, run);
  const { state, moves } = insertRun(context, tenant, run);
  if (moves === undefined) return { ...admitted(context, state, run), ...evicted };
  const { woken } = handOnGates(context, tenant, moves);
  const others = woken.filter((runId) => runId !== run.runId);
  // What it has replaced may have left a place to it.
  const now = context.records.get("run", tenant, run.runId) ?? state;
  return { ...started(context, now, run), ...evicted, ...wokenIn(others) };
}

function makeRoom(context: Context, tenant: TenantId, { key }: NewRun) {
  return key === undefined ? {} : makeRoomForKey(context, tenant, key.digest);
}

/** `moves`: what else has happened at its gates. */
function insertRun(context: Context, tenant: TenantId, run: NewRun) {
  const { runId, workflow, definition, actor, key } = run;
  const admittedAtMs = nowMs(context);
  const empty: StoredRun = {
    runId,
    tenant,
    workflow,
    definition,
    status: "pending",
    version: 0,
    actor,
    admittedAtMs,
    updatedAtMs: admittedAtMs,
    entriesAppended: 0,
    entriesWaiting: 0,
    drains: 0,
    ...(key === undefined ? {} : { reservation: key.digest, fingerprint: key.fingerprint }),
  };
  const wait = takeStartRates(context, tenant, run.rates);
  const { state: placed, moves } = enterGates(context, empty, run.gates, wait);
  if (key !== undefined) {
    const { digest, fingerprint } = key;
    putReservation(context, tenant, digest, { state: "bound", runId, fingerprint });
  }
  scheduleProof(context, tenant);
  const { status } = placed;
  const change = status === "queued" ? { ...run.change, status } : run.change;
  const applied = applyChange(context, placed, { commitId: runId, change });
  const state =
    run.start === "applied" || status === "queued"
      ? applied
      : appendEntry(context, applied, { kind: "started", entryId: runId });
  putState(context, state);
  if (status === "queued") appendQueued(context, state);
  else appendEvent(context, tenant, { type: "run_admitted", subject: runId, actor, detail: workflow });
  return { state: changeTree(context, state, run.change), moves };
}

/** The answer to a start, also to one that is repeated later. */
function started(context: Context, state: StoredRun, run: NewRun) {
  const { runId, tenant } = state;
  if (!isQueued(state)) return admitted(context, state, run);
  const { deadlineAtMs } = state.gates;
  const told = { ...keysKept(context, tenant, run), ...rateLeft(context, tenant, run) };
  return { kind: "queued", runId, ...waitOf(context, state, run), deadlineAtMs, ...told } as const;
}

function waitOf(context: Context, { tenant, gates }: GatedRun, run: NewRun) {
  const { waits, startsAtMs, rate } = gates;
  if (waits === undefined && startsAtMs !== undefined && rate !== undefined) {
    const asked = run.rates?.find((each) => each.rate === rate);
    const position = asked === undefined ? 1 : positionInRate(context, startsAtMs, asked);
    return { rate, startsAtMs, position };
  }
  const gate = nextGate(gates);
  return { gate, position: waitingAt(context, tenant, gate, waits?.level) };
}

function admitted(context: Context, state: StoredRun, run: NewRun) {
  const { runId, status, tenant } = state;
  const claims = claimsGranted(context, tenant, run.change.jobs);
  const told = { ...keysKept(context, tenant, run), ...rateLeft(context, tenant, run) };
  return { kind: "admitted", runId, status, ...slots(context, tenant), claims, ...told } as const;
}

function keysKept({ records }: Context, tenant: TenantId, { key }: NewRun) {
  return key === undefined ? {} : { keysKept: records.size("reservation", tenant) };
}

export function deleteRun(context: Context, request: RequestOf<"deleteRun">): OutcomeOf<"deleteRun"> {
  const { tenant, runId, actor, credential } = request;
  const state = context.records.get("run", tenant, runId);
  if (state === undefined || state.deleted) return { kind: "not_found" };
  if (isRevoked(context, tenant, credential)) return { kind: "unauthenticated" };
  if (!isTerminal(state.status)) return { kind: "not_ended" };
  if (removePart(context, state) === "more") {
    putState(context, { ...state, removing: true });
    return { kind: "more" };
  }
  const graveUntilMs = state.admittedAtMs + graveMs;
  if (nowMs(context) < graveUntilMs) bury(context, state, graveUntilMs);
  appendAudited(context, tenant, { type: "run_deleted", subject: runId, actor, detail: state.status });
  return { kind: "deleted" };
}

/**
 * A start without a key that was sent twice must not make the run again after it was removed. No call is under way for longer
 * than a minute (the largest store.callTimeoutMs).
 */
const graveMs = 60_000;

function bury(context: Context, state: StoredRun, removeAtMs: number): void {
  const { tenant, runId } = state;
  putState(context, { ...state, deleted: true, removeAtMs, entriesWaiting: 0 });
  setDue(context, { kind: "retention", tenant, subject: runId }, removeAtMs);
}

/** Records removed by one operation: it stays well within its budget of 2 ms. */
const partMax = 500;

const belongings: readonly RecordKind[] = ["runRecord", "inbox", "timeline", "timer", "job"];

/** The run itself goes last, so that a part left over is found again. */
export function removePart(context: Context, state: StoredRun): "removed" | "more" {
  const { tenant, runId } = state;
  const scope = scopeOf(tenant, runId);
  let room = partMax;
  for (const kind of belongings) {
    const rows = context.records.scan(kind, scope, "", room);
    for (const { member, value } of rows) {
      if (kind === "job") {
        forgetJobLocks(context, state, member as JobId);
        const job = value as JobState;
        abandonJob(context, tenant, job);
      }
      context.records.erase(kind, scope, member);
    }
    room -= rows.length;
    if (room === 0) return "more";
  }
  for (const { member } of context.records.scan("approval", tenant, `${runId}:`, room)) {
    if (!member.startsWith(`${runId}:`)) break;
    context.records.erase("approval", tenant, member);
    room -= 1;
  }
  if (room === 0) return "more";
  clearDue(context, { kind: "retention", tenant, subject: runId }, state.removeAtMs);
  forgetLock(context, tenant, runLock(runId));
  context.records.erase("run", tenant, runId);
  return "removed";
}

function forgetJobLocks(context: Context, { tenant }: StoredRun, jobId: JobId): void {
  forgetLock(context, tenant, { namespace: "job", name: jobId });
  forgetLock(context, tenant, { namespace: "approval", name: jobId });
}
