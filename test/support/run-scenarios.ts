// The scenarios of the operations on runs, jobs, approvals and documents: each writes all that it ever can.
import type { TenantKeys } from "../../src/adapters/redis/keys.ts";
import type { LockName } from "../../src/domain/lock.ts";
import type { RunChange, RunId } from "../../src/domain/run.ts";
import type { OperationName } from "../../src/ports/store.ts";
import { call, type Harness, key } from "../../src/testing/conformance/harness.ts";
import {
  approvalOf,
  cancelOf,
  changeOf,
  childOf,
  commitOf,
  decisionOf,
  deliver,
  deliverAndOwn,
  deliveryOf,
  jobOf,
  resultOf,
  retryOf,
  runLock,
} from "../../src/testing/conformance/run-steps.ts";
import type { Preparation } from "./operation-scenarios.ts";

type RunOperationName = Exclude<
  OperationName,
  | ("acquireLock" | "renewLock" | "releaseLock" | "inspectLock" | "listLocks" | "breakLock")
  | ("getTenant" | "setTenant" | "reserve" | "countJobs")
  | ("handOn" | "listGates" | "inspectGate" | "listLedgers" | "moveQueued")
  | (
      | "countUsage"
      | "cancelReservation"
      | "countActive"
      | "createRun"
      | "listActive"
      | "inspectReservation"
      | "readEvents"
      | "dropTrail"
    )
>;

export const runPreparations: { readonly [Name in RunOperationName]: Preparation<Name> } = {
  async admit(harness, keys) {
    await harness.set({ maxConcurrentRuns: 3 });
    for (const text of ["first", "second"])
      await harness.end(await harness.admit(harness.newRun({ key: key(text) })));
    const runId = harness.runId();
    const jobs = [jobOf(runId, { step: "a", claim: harness.claim() }), jobOf(runId, { step: "b" })];
    const children = [childOf(harness, { runId: oldChild(runId) })];
    const change = { jobs, approvals: [approvalOf(runId)], deadLetters: [letter], children };
    const run = harness.newRun({ runId, key: key("k"), start: "inbox", change });
    const writes = [
      ...[keys.run(runId), keys.runs, keys.active, keys.events, keys.due, keys.fence, keys.inbox(runId)],
      ...[keys.run(oldChild(runId)), keys.inbox(oldChild(runId))],
      ...[keys.reservation(key("k").digest), keys.keyed, keys.ready("shell")],
      ...[keys.approvals, keys.approval(approvalOf(runId).approvalId)],
      ...[keys.documents("deadLetter"), keys.documentIds("deadLetter")],
    ];
    const removes = [keys.reservation(key("first").digest)];
    return { request: { tenant: harness.tenant, run }, writes, removes, kind: "admitted" };
  },
  async loadRun(harness) {
    return { request: { tenant: harness.tenant, runId: await harness.admit() }, writes: [], kind: "run" };
  },
  async listRuns(harness) {
    await harness.admit();
    return { request: { tenant: harness.tenant, limit: 10 }, writes: [], kind: "listed" };
  },
  async readTimeline(harness) {
    const runId = await harness.admit();
    const request = { tenant: harness.tenant, runId, after: 0, limit: 10 };
    return { request, writes: [], kind: "timeline" };
  },
  async deleteRun(harness, keys) {
    const { runId, jobId } = await richRun(harness);
    await harness.end(runId);
    const locks: LockName[] = [
      { namespace: "job", name: jobId },
      { namespace: "approval", name: jobId },
      runLock(runId),
    ];
    for (const lock of locks) await harness.acquire(lock, 60_000);
    const writes = [
      ...[keys.run(runId), keys.runs, keys.events, keys.trail, keys.due, keys.approvals],
      ...[keys.approval(approvalOf(runId).approvalId)],
      ...locks.flatMap((lock) => [keys.lock(lock), keys.grant(lock)]),
    ];
    return { request: { tenant: harness.tenant, runId, actor: "tester" }, writes, kind: "deleted" };
  },
  async deliver(harness, keys) {
    const { runId, jobId, token } = await richRun(harness);
    const change = changeOf({ ...richChange(harness, runId), status: "failed" });
    const proposal = { expectedVersion: 1, commitId: "proposed", change };
    const request = deliveryOf(harness, runId, resultOf(harness, { jobId, token }), { proposal });
    return { request, writes: [...changeWrites(keys, runId), ...endWrites(keys)], kind: "applied" };
  },
  async takeRun(harness, keys) {
    const runId = await poisonedRun(harness);
    const request = { tenant: harness.tenant, runId, take: harness.take(), records: [] };
    return { request, writes: takeWrites(keys, runId), kind: "owned" };
  },
  async commit(harness, keys, remove) {
    const { runId, ...job } = await richRun(harness);
    const { guard } = await deliverAndOwn(harness, runId, resultOf(harness, job));
    await remove(keys.lock(guard.lock));
    const request = commitOf(
      harness,
      runId,
      { ...guard, policy: "continue" },
      { change: richChange(harness, runId) },
    );
    const writes = [...changeWrites(keys, runId), keys.lock(guard.lock), keys.grant(guard.lock)];
    return { request, writes, kind: "committed" };
  },
  async claimJobs(harness, keys) {
    const { runId } = await richRun(harness);
    const { jobId } = jobOf(runId, { step: "ready" });
    const claims = [{ jobId, terms: harness.claim() }];
    const writes = [keys.run(runId), keys.ready("old"), keys.due, keys.fence];
    return { request: { tenant: harness.tenant, claims }, writes, kind: "judged" };
  },
  async heartbeatJobs(harness, keys) {
    const { runId, jobId, token } = await richRun(harness);
    const beats = [{ jobId, token, leaseMs: 90_000, progress: "half" }];
    return {
      request: { tenant: harness.tenant, beats },
      writes: [keys.run(runId), keys.due],
      kind: "judged",
    };
  },
  async getJob(harness) {
    const { jobId } = await richRun(harness);
    return { request: { tenant: harness.tenant, jobId }, writes: [], kind: "job" };
  },
  async listReadyJobs(harness) {
    await richRun(harness);
    return { request: { tenant: harness.tenant, topic: "old", limit: 10 }, writes: [], kind: "listed" };
  },
  async getApproval(harness) {
    const { runId } = await richRun(harness);
    const { approvalId } = approvalOf(runId);
    return { request: { tenant: harness.tenant, approvalId }, writes: [], kind: "approval" };
  },
  async listApprovals(harness) {
    await richRun(harness);
    return { request: { tenant: harness.tenant, limit: 10 }, writes: [], kind: "listed" };
  },
  async putDocument(harness, keys) {
    const base = { tenant: harness.tenant, collection: "deadLetter", id: "letter", body: "{}" } as const;
    const request = { ...base, changeId: "change", actor: "tester" };
    return { request, writes: letterWrites(keys), kind: "saved" };
  },
  async getDocument(harness) {
    const { tenant } = harness;
    await saveLetter(harness);
    const request = { tenant, collection: "deadLetter", id: "letter" } as const;
    return { request, writes: [], kind: "document" };
  },
  async listDocuments(harness) {
    await saveLetter(harness);
    const request = { tenant: harness.tenant, collection: "deadLetter", after: "", limit: 10 } as const;
    return { request, writes: [], kind: "listed" };
  },
  async removeDocument(harness, keys) {
    await saveLetter(harness);
    const base = { tenant: harness.tenant, collection: "deadLetter", id: "letter" } as const;
    const writes = [...letterWrites(keys), keys.trail];
    return { request: { ...base, actor: "tester" }, writes, kind: "removed" };
  },
  async findDue(harness) {
    await harness.admit(harness.newRun({ change: { timers: [{ timerId: "t", dueAtMs: 1 }] } }));
    return { request: { partitions: [harness.partition] }, writes: [], kind: "found" };
  },
  async sweep(harness, keys) {
    const runId = harness.runId();
    const change = {
      timers: [{ timerId: "t", dueAtMs: 1 }],
      jobs: [jobOf(runId, { claim: harness.claim(1) })],
    };
    await harness.admit(harness.newRun({ runId, change }));
    await harness.untilAfter((await harness.now()) + 1);
    const writes = [keys.due, keys.swept, keys.run(runId), keys.inbox(runId)];
    return { request: { partition: harness.partition }, writes, kind: "swept" };
  },
};

/** The other ways that an operation can go, where they write other keys. */
export const runVariants = {
  async "deliver: a decision that takes the run and sets its head entry aside"(harness, keys) {
    const runId = await poisonedRun(harness);
    const request = deliveryOf(harness, runId, decisionOf(harness, approvalOf(runId).approvalId));
    const approval = keys.approval(approvalOf(runId).approvalId);
    return {
      request,
      writes: [...takeWrites(keys, runId), keys.events, keys.trail, approval],
      kind: "delivered",
    };
  },
  async "deliver: a cancel for a busy run"(harness, keys) {
    const { runId } = await richRun(harness);
    await harness.acquire(runLock(runId), 60_000);
    const request = deliveryOf(harness, runId, cancelOf(harness));
    const writes = [keys.run(runId), keys.inbox(runId), keys.events, keys.trail, keys.due];
    return { request, writes, kind: "delivered" };
  },
  async "commit: the end of a run, with an entry left over"(harness, keys) {
    const { runId, ...job } = await richRun(harness);
    const { guard } = await deliverAndOwn(harness, runId, resultOf(harness, job));
    const change = { ...richChange(harness, runId), status: "cancelled" } as const;
    const request = commitOf(harness, runId, guard, { change });
    const writes = [
      ...[...changeWrites(keys, runId), ...endWrites(keys)],
      ...[keys.inbox(runId), keys.lock(guard.lock), keys.grant(guard.lock)],
    ];
    return { request, writes, kind: "committed" };
  },
  async "commit: the end of a run, with a retry left over"(harness, keys) {
    const runId = await harness.admit();
    await harness.commit(runId, { deadLetters: [letter] });
    const retry = retryOf(harness, jobOf(runId).jobId, { letterId: letter.id });
    const { guard } = await deliverAndOwn(harness, runId, retry);
    const request = commitOf(harness, runId, guard, { expectedVersion: 2, change: { status: "failed" } });
    const writes = [
      ...[keys.run(runId), keys.active, keys.events, keys.due, keys.documents("deadLetter")],
      ...[keys.inbox(runId), keys.lock(guard.lock), keys.grant(guard.lock)],
    ];
    return { request, writes, kind: "committed" };
  },
  async "commit: what was consumed leaves the inbox"(harness, keys) {
    const { runId } = await richRun(harness);
    const { guard } = await deliverAndOwn(harness, runId, cancelOf(harness));
    await deliver(harness, runId, decisionOf(harness, approvalOf(runId).approvalId));
    const request = commitOf(harness, runId, { ...guard, ttlMs: 90_000 }, { consumed: 1 });
    const locks = [keys.lock(guard.lock), keys.grant(guard.lock)];
    const writes = [keys.run(runId), keys.inbox(runId), keys.events, keys.due, ...locks];
    return { request, writes, kind: "committed" };
  },
  async "commit: a child run ends, which starts one more"(harness, keys) {
    const root = await harness.admit();
    const parent = childOf(harness);
    await harness.commit(root, { children: [parent] });
    const child = childOf(harness);
    await harness.commit(parent.runId, { children: [child] });
    const born = childOf(harness);
    const guard = await harness.acquire(runLock(child.runId), 60_000);
    const change = { status: "failed", children: [born] } as const;
    const request = commitOf(harness, child.runId, guard, { change });
    const writes = [
      ...[keys.run(child.runId), keys.inbox(child.runId), keys.lock(guard.lock), keys.grant(guard.lock)],
      ...[keys.run(root), keys.inbox(parent.runId), keys.run(born.runId), keys.inbox(born.runId)],
      ...[keys.runs, keys.events, keys.due],
    ];
    return { request, writes, kind: "committed" };
  },
  async "deliver: a retry that opens a run again"(harness, keys) {
    const { runId, jobId } = await richRun(harness);
    await harness.commit(runId, { status: "failed", deadLetters: [letter] });
    const request = deliveryOf(harness, runId, retryOf(harness, jobId, { letterId: letter.id }));
    const lock = runLock(runId);
    const writes = [
      ...[keys.run(runId), keys.active, keys.reservation(key("k").digest), keys.keyed, keys.events],
      ...[keys.trail, keys.documents("deadLetter"), keys.inbox(runId), keys.due, keys.fence],
      ...[keys.lock(lock), keys.grant(lock)],
    ];
    return { request, writes, kind: "delivered" };
  },
  async "putDocument: one that is audited"({ tenant }, keys) {
    const name = { tenant, collection: "workflow", id: "w" } as const;
    const writes = [keys.documents("workflow"), keys.documentIds("workflow"), keys.events, keys.trail];
    return { request: { ...name, body: "{}", changeId: "c", actor: "tester" }, writes, kind: "saved" };
  },
} satisfies Record<string, Preparation<"deliver"> | Preparation<"commit"> | Preparation<"putDocument">>;

const letter = { id: "letter", reason: "claims_lost", body: "{}" } as const;

async function saveLetter(harness: Harness): Promise<void> {
  await harness.commit(await harness.admit(), { deadLetters: [letter] });
}

function letterWrites(keys: TenantKeys): readonly string[] {
  return [keys.documents("deadLetter"), keys.documentIds("deadLetter"), keys.events, keys.due];
}

/** A run with a key, a claimed job, a ready one of the topic `old`, a timer, an approval that waits and a child. */
async function richRun(harness: Harness, start: "applied" | "inbox" = "applied") {
  const runId = harness.runId();
  const terms = harness.claim();
  const jobs = [jobOf(runId, { claim: terms }), jobOf(runId, { step: "ready", topic: "old" })];
  const timers = [{ timerId: "old", dueAtMs: 9_000_000_000_000 }];
  const children = [childOf(harness, { runId: oldChild(runId) })];
  const change = { jobs, timers, approvals: [approvalOf(runId)], children };
  await harness.admit(harness.newRun({ runId, key: key("k"), start, change }));
  return { runId, jobId: jobOf(runId).jobId, token: terms.token };
}

/** The child that a rich run begins with, and the one that its change starts. */
function oldChild(runId: RunId): RunId {
  return `${runId}old` as RunId;
}
function newChild(runId: RunId): RunId {
  return `${runId}new` as RunId;
}

/** A change of such a run that has something of everything. */
function richChange(harness: Harness, runId: RunId): Partial<RunChange> {
  return {
    records: [{ key: "step/a", body: "{}" }],
    jobs: [jobOf(runId, { step: "a", claim: harness.claim() }), jobOf(runId, { step: "b" })],
    voidJobs: [jobOf(runId, { step: "ready" }).jobId],
    timers: [{ timerId: "new", dueAtMs: 9_000_000_000_000 }],
    clearTimers: ["old"],
    approvals: [approvalOf(runId, { step: "second" })],
    closeApprovals: [{ approvalId: approvalOf(runId).approvalId, state: "cancelled" }],
    deadLetters: [letter],
    children: [childOf(harness, { runId: newChild(runId) })],
    cancelChildren: [oldChild(runId)],
  };
}

function changeWrites(keys: TenantKeys, runId: RunId): readonly string[] {
  return [
    ...[keys.run(runId), keys.events, keys.due, keys.fence, keys.ready("old"), keys.ready("shell")],
    ...[keys.approvals, keys.approval(approvalOf(runId).approvalId)],
    ...[keys.approval(approvalOf(runId, { step: "second" }).approvalId)],
    ...[oldChild(runId), newChild(runId)].flatMap((child) => [keys.run(child), keys.inbox(child)]),
    keys.runs,
    ...[keys.documents("deadLetter"), keys.documentIds("deadLetter")],
  ];
}

function endWrites(keys: TenantKeys): readonly string[] {
  return [keys.active, keys.reservation(key("k").digest), keys.keyed];
}

/** A run that five owners took without a commit: the next one finds its head entry set aside. */
async function poisonedRun(harness: Harness): Promise<RunId> {
  const { store, tenant } = harness;
  const { runId } = await richRun(harness, "inbox");
  for (let owner = 1; owner <= 5; owner += 1) {
    const take = harness.take();
    await store.takeRun({ tenant, runId, take, records: [] }, call);
    await harness.release({ lock: runLock(runId), token: take.token });
  }
  return runId;
}

function takeWrites(keys: TenantKeys, runId: RunId): readonly string[] {
  const lock = runLock(runId);
  return [
    ...[keys.run(runId), keys.inbox(runId), keys.due, keys.fence, keys.lock(lock), keys.grant(lock)],
    ...[keys.documents("deadLetter"), keys.documentIds("deadLetter")],
  ];
}
