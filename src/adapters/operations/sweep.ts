// The look for partitions in which something is due, and the sweep of one: handles what is due, at most 100 things shared between tenants, and says what a process must do next.

import type { GateId } from "../../domain/gates.ts";
import type { InboxEntry } from "../../domain/inbox.ts";
import type { JobId } from "../../domain/job.ts";
import { isTerminal, type RunId } from "../../domain/run.ts";
import { type Partition, partitionLabel, type TenantId } from "../../domain/tenant.ts";
import type { OutcomeOf, RequestOf } from "../../ports/store.ts";
import { removeLedger } from "./budgets.ts";
import { removeExpiredLetter } from "./documents.ts";
import { type DueKind, lookAtGates, readDueMember, setDue } from "./due.ts";
import { hasWork } from "./gates.ts";
import { endQueued, handOnGates, type Moves, passRate } from "./grants.ts";
import { hintOf, readJob } from "./job-records.ts";
import { republishJob, settleJob } from "./jobs.ts";
import { holderOf, visitLock } from "./locks.ts";
import { visitLine, visitLines } from "./parked.ts";
import { proveTenant } from "./proofs.ts";
import { isQueued, planVisit } from "./queues.ts";
import { forgetLevel } from "./rates.ts";
import { type Context, nowMs, orderedNumber } from "./records.ts";
import { bringEntry, isAway } from "./released.ts";
import { putState, runLock, scopeOf, withAttention } from "./run-records.ts";
import { removePart } from "./runs.ts";
import { readTenant } from "./tenants.ts";

type Swept = Extract<OutcomeOf<"sweep">, { kind: "swept" }>;
type Waiting = Swept["waiting"][number];
type Findings = {
  readonly waiting: Map<RunId, Waiting>;
  readonly unclaimed: Array<Swept["unclaimed"][number]>;
  readonly repairs: Array<Swept["repairs"][number]>;
  readonly gates: Map<string, Swept["gates"][number]>;
  lostClaims: number;
  queueDeadlines: number;
};

const thingsMax = 100;

/**
 * Looked at besides, while more is due than one round takes: with a backlog of N things of one tenant, a neighbour's is
 * handled within N / 1,000 rounds and one more. An index by tenant would do it in one, and every writer would keep two.
 */
const lookedAtMax = 1_000;

/** One seek per partition, 64 at most: about 100 us on SQLite. */
export function findDue(context: Context, { partitions }: RequestOf<"findDue">): OutcomeOf<"findDue"> {
  const isDue = (partition: Partition) => dueAfter(context, partitionLabel(partition), "", 1).length > 0;
  return { kind: "found", partitions: partitions.filter(isDue) };
}

export function sweep(context: Context, request: RequestOf<"sweep">): OutcomeOf<"sweep"> {
  const scope = partitionLabel(request.partition);
  const { records } = context;
  const now = nowMs(context);
  const due = dueAfter(context, scope, "", thingsMax);
  const found: Findings = {
    ...{ waiting: new Map(), unclaimed: [], repairs: [], gates: new Map() },
    ...{ lostClaims: 0, queueDeadlines: 0 },
  };
  if (due.length > 0) {
    const last = records.get("sweepMark", scope, "last");
    const againInMs = last === undefined ? 0 : last.atMs + context.settings.sweepEveryMs - now;
    if (againInMs > 0) return { kind: "not_due", againInMs };
    const { round, after } =
      due.length < thingsMax ? { round: due } : shareRound(context, scope, due, last?.after);
    records.put("sweepMark", scope, "last", { atMs: now, ...(after === undefined ? {} : { after }) });
    for (const { member, thing } of round) {
      records.erase("due", scope, member);
      handlers[thing.kind](context, thing.tenant, thing.subject, found);
    }
  }
  return { kind: "swept", ...found, waiting: [...found.waiting.values()], gates: [...found.gates.values()] };
}

type DueRow = { readonly member: string } & ReturnType<typeof readDueMember>;

function dueAfter(context: Context, scope: string, after: string, limit: number): readonly DueRow[] {
  const later = orderedNumber(nowMs(context) + 1);
  const rows = context.records.scan("due", scope, after, limit).filter(({ member }) => member < later);
  return rows.map(({ member }) => ({ member, ...readDueMember(member) }));
}

type Round = { readonly round: readonly DueRow[]; readonly after?: string };

/** More is due than one round takes: the tenants take turns, each with what is due longest. */
function shareRound(context: Context, scope: string, front: readonly DueRow[], lookedAt = ""): Round {
  const end = front.at(-1)?.member ?? "";
  const further = dueAfter(context, scope, lookedAt > end ? lookedAt : end, lookedAtMax);
  const byTenant = new Map<TenantId, DueRow[]>();
  for (const row of [...front, ...further]) {
    const own = byTenant.get(row.thing.tenant) ?? [];
    own.push(row);
    byTenant.set(row.thing.tenant, own);
  }
  const round: DueRow[] = [];
  for (let turn = 0; round.length < thingsMax; turn += 1) {
    for (const own of byTenant.values()) round.push(...own.slice(turn, turn + 1));
  }
  const after = further.length < lookedAtMax ? undefined : further.at(-1)?.member;
  return { round: round.slice(0, thingsMax), ...(after === undefined ? {} : { after }) };
}

type Handler = (context: Context, tenant: TenantId, subject: string, found: Findings) => void;

const handlers: { readonly [Kind in DueKind]: Handler } = {
  attention: visitRun,
  claim: loseClaim,
  timer: fireTimer,
  unclaimed: publishAgain,
  retention: removeEnded,
  letter: removeExpiredLetter,
  proof: prove,
  lock: visitLock,
  gate: visitGate,
  gates: visitGates,
  queued: endWaiting,
  rated: beginRated,
  level: forgetLevel,
  budget: letJobsGo,
  budgets: visitLines,
  ledger: removeLedger,
};

function visitRun(context: Context, tenant: TenantId, subject: string, found: Findings): void {
  const runId = subject as RunId;
  const state = context.records.get("run", tenant, runId);
  if (state === undefined || state.entriesWaiting === 0) return;
  putState(context, withAttention(context, state, context.settings.attentionMs));
  if (!isAway(state) && holderOf(context, tenant, runLock(runId)) === undefined)
    found.waiting.set(runId, { tenant, runId });
}

function loseClaim(context: Context, tenant: TenantId, subject: string, found: Findings): void {
  const jobId = subject as JobId;
  const job = readJob(context, tenant, jobId);
  if (job?.state !== "claimed" || job.claim === undefined || job.claim.expiresAtMs > nowMs(context)) return;
  settleJob(context, tenant, job, { state: "lost" });
  found.lostClaims += 1;
  const { worker } = job.claim;
  bring(context, tenant, job.runId, { kind: "claim_lost", entryId: `lost:${jobId}`, jobId, worker }, found);
}

function fireTimer(context: Context, tenant: TenantId, subject: string, found: Findings): void {
  const space = subject.indexOf(" ");
  const runId = subject.slice(0, space) as RunId;
  const timerId = subject.slice(space + 1);
  const scope = scopeOf(tenant, runId);
  if (context.records.get("timer", scope, timerId) === undefined) return;
  context.records.erase("timer", scope, timerId);
  bring(context, tenant, runId, { kind: "timer", entryId: `timer:${timerId}`, timerId }, found);
}

/** Appends the entry and asks for an owner, unless there is one: it will see the entry when it commits. */
function bring(context: Context, tenant: TenantId, runId: RunId, entry: InboxEntry, found: Findings): void {
  const state = context.records.get("run", tenant, runId);
  if (state === undefined || isTerminal(state.status)) return;
  const next = bringEntry(context, state, entry);
  putState(context, next);
  if (!isAway(next) && holderOf(context, tenant, runLock(runId)) === undefined)
    found.waiting.set(runId, { tenant, runId });
}

function publishAgain(context: Context, tenant: TenantId, subject: string, found: Findings): void {
  const jobId = subject as JobId;
  const job = readJob(context, tenant, jobId);
  if (job?.state !== "ready" && job?.state !== "held") return;
  republishJob(context, tenant, job);
  found.unclaimed.push({ tenant, job: hintOf(job) });
}

function removeEnded(context: Context, tenant: TenantId, subject: string): void {
  const runId = subject as RunId;
  const state = context.records.get("run", tenant, runId);
  if (state === undefined || removePart(context, state) === "removed") return;
  const removeAtMs = nowMs(context);
  putState(context, { ...state, removeAtMs, removing: true });
  setDue(context, { kind: "retention", tenant, subject: runId }, removeAtMs);
}

function endWaiting(context: Context, tenant: TenantId, subject: string, found: Findings): void {
  const state = context.records.get("run", tenant, subject as RunId);
  if (state === undefined || !isQueued(state) || state.gates.deadlineAtMs > nowMs(context)) return;
  const moves: Moves = { woken: [], freed: [] };
  const end = { status: "timed_out", reason: "queue_deadline_passed" } as const;
  endQueued(context, state, end, moves);
  found.queueDeadlines += 1;
  wake(tenant, handOnGates(context, tenant, moves).woken, found);
}

/** Its rate lets it through: it goes on to its gates. While its tenant is stopped, nothing begins. */
function beginRated(context: Context, tenant: TenantId, subject: string, found: Findings): void {
  const state = context.records.get("run", tenant, subject as RunId);
  if (state === undefined || !isQueued(state) || state.gates.startsAtMs === undefined) return;
  const { startsAtMs } = state.gates;
  if (startsAtMs > nowMs(context)) return;
  if (readTenant(context, tenant).settings.stopped === true) {
    setDue(context, { kind: "rated", tenant, subject }, nowMs(context) + context.settings.attentionMs);
    return;
  }
  const moves: Moves = { woken: [], freed: [] };
  passRate(context, state, moves);
  wake(tenant, handOnGates(context, tenant, moves).woken, found);
}

function letJobsGo(context: Context, tenant: TenantId, subject: string, found: Findings): void {
  for (const job of visitLine(context, tenant, subject)) found.unclaimed.push({ tenant, job });
}

/** Of the gates at which runs wait, those with a free place are handed on by the process that sweeps. */
function visitGate(context: Context, tenant: TenantId, subject: string, found: Findings): void {
  const gate = subject as GateId;
  if (!hasWork(context, tenant, gate)) {
    planVisit(context, tenant, gate, undefined);
    return;
  }
  planVisit(context, tenant, gate, nowMs(context) + context.settings.attentionMs);
  found.gates.set(`${tenant} ${gate}`, { tenant, gate });
}

const gatesMax = 100;

function visitGates(context: Context, tenant: TenantId, after: string, found: Findings): void {
  const rows = context.records.scan("gateQueue", tenant, after, gatesMax);
  for (const { member } of rows) visitGate(context, tenant, member, found);
  if (rows.length === gatesMax) lookAtGates(context, tenant, rows.at(-1)?.member);
}

function prove(context: Context, tenant: TenantId, _subject: string, found: Findings): void {
  const { repairs, woken } = proveTenant(context, tenant);
  for (const repair of repairs) found.repairs.push({ tenant, ...repair });
  wake(tenant, woken, found);
}

function wake(tenant: TenantId, woken: readonly RunId[], { waiting }: Findings): void {
  for (const runId of woken) waiting.set(runId, { tenant, runId });
}
