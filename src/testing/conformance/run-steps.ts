// What the cases about runs share: jobs, approvals and entries with sensible defaults, steps, limits, sweeps, and a picture of all of it.
import assert from "node:assert/strict";
import type { ApprovalId, ApprovalRequest, Decision } from "../../domain/approval.ts";
import type { NewEntry } from "../../domain/inbox.ts";
import { type ClaimTerms, type ClaimToken, type JobId, type JobSpec, makeJobId } from "../../domain/job.ts";
import type { Guard, LockName } from "../../domain/lock.ts";
import { type ChildRun, type RunChange, type RunHeader, type RunId, unchanged } from "../../domain/run.ts";
import type { OwnedRun, TakeTerms } from "../../ports/run-operations.ts";
import type { OutcomeOf, RequestOf } from "../../ports/store.ts";
import { call, type Harness, only } from "./harness.ts";

export function runLock(runId: RunId): LockName {
  return { namespace: "run", name: runId };
}

export function changeOf(changes: Partial<RunChange> = {}): RunChange {
  return { ...unchanged, status: "running", timeline: "[]", ...changes };
}

export function jobOf(runId: RunId, options: Partial<JobSpec> = {}): JobSpec {
  const { step = "build", attempt = 1 } = options;
  const jobId = makeJobId({ runId, step, attempt });
  return { jobId, step, attempt, topic: "shell", inputKey: `input/${step}`, ...options };
}

export function approvalOf(runId: RunId, options: Partial<ApprovalRequest> = {}): ApprovalRequest {
  const { step = "review" } = options;
  return {
    approvalId: `${runId}:${step}@1` as ApprovalId,
    step,
    hash: "hash-1",
    payloadKey: `payload/${step}`,
    requester: "alice",
    separateDuties: false,
    ...options,
  };
}

type EntryOf<Kind extends NewEntry["kind"]> = Extract<NewEntry, { kind: Kind }>;

export function resultOf(
  harness: Harness,
  { jobId, token }: { readonly jobId: JobId; readonly token: ClaimToken },
  options: Partial<EntryOf<"result">> = {},
): EntryOf<"result"> {
  const payload = { key: `output/${jobId}`, body: '{"ok":true}' };
  const entryId = harness.id("result");
  return { kind: "result", entryId, jobId, token, outcome: "succeeded", payload, ...options };
}

export function decisionOf(
  harness: Harness,
  approvalId: ApprovalId,
  options: Partial<EntryOf<"decision">> & { readonly decision?: Decision } = {},
): EntryOf<"decision"> {
  const entryId = harness.id("decision");
  return {
    kind: "decision",
    entryId,
    approvalId,
    decision: "approved",
    hash: "hash-1",
    decidedBy: "bob",
    ...options,
  };
}

export function cancelOf(harness: Harness): EntryOf<"cancel"> {
  return { kind: "cancel", entryId: harness.id("cancel"), actor: "carol", reason: "not needed" };
}

export function timerOf(timerId: string): EntryOf<"timer"> {
  return { kind: "timer", entryId: `timer:${timerId}`, timerId };
}

export function retryOf(
  harness: Harness,
  jobId: JobId,
  options: Partial<EntryOf<"retry">> = {},
): EntryOf<"retry"> {
  const ids = { entryId: harness.id("retry"), letterId: jobId, jobId };
  return { kind: "retry", ...ids, actor: "dora", ...options };
}

export function childOf(harness: Harness, options: Partial<ChildRun> = {}): ChildRun {
  return {
    runId: harness.runId(),
    workflow: "notify",
    definition: "sha256:2",
    step: "call",
    attempt: 1,
    records: [{ key: "input/run", body: '{"child":true}' }],
    ...options,
  };
}

/** A root and one child of its step `call`. */
export async function family(harness: Harness, options: Partial<ChildRun> = {}) {
  const parent = await harness.admit();
  const child = childOf(harness, options);
  await harness.commit(parent, { children: [child] });
  return { parent, child: child.runId };
}

export async function headerOf({ store, tenant }: Harness, runId: RunId): Promise<RunHeader> {
  return only(await store.loadRun({ tenant, runId, records: [] }, call), "run").header;
}

/** A commit that applies all that waits, so that the lock is given back. */
export async function applyAll(harness: Harness, runId: RunId, change: Partial<RunChange>): Promise<void> {
  const { version } = await headerOf(harness, runId);
  const guard = await harness.acquire(runLock(runId), 60_000);
  const options = { consumed: 100, expectedVersion: version, change };
  only(await commit(harness, runId, guard, options), "committed");
}

/** The runs that hold slots, oldest first. */
export async function activeRuns({ store, tenant }: Harness): Promise<readonly RunId[]> {
  return only(await store.listActive({ tenant, limit: 100 }, call), "listed").runIds;
}

type DeliverOptions = Partial<Omit<RequestOf<"deliver">, "runId" | "entry">>;

export function deliver(harness: Harness, runId: RunId, entry: NewEntry, options: DeliverOptions = {}) {
  return harness.store.deliver(deliveryOf(harness, runId, entry, options), call);
}

/** The request by itself, for cases that send it more than once. */
export function deliveryOf(
  harness: Harness,
  runId: RunId,
  entry: NewEntry,
  options: DeliverOptions = {},
): RequestOf<"deliver"> {
  const { tenant } = harness;
  return { tenant, runId, entry, take: harness.take(), whenBusy: "append", records: [], ...options };
}

/** Delivers, and is the owner of the run then. */
export async function deliverAndOwn(
  harness: Harness,
  runId: RunId,
  entry: NewEntry,
  options: DeliverOptions = {},
): Promise<OwnedRun & { readonly guard: Guard }> {
  const request = deliveryOf(harness, runId, entry, options);
  const { run } = only(await harness.store.deliver(request, call), "delivered");
  const owned = only(run, "owned");
  return { ...owned, guard: guardOf(runId, owned, request.take) };
}

export function guardOf(runId: RunId, { fence }: Pick<OwnedRun, "fence">, take: TakeTerms): Guard {
  return { lock: runLock(runId), token: take.token, fence, policy: "fence", ttlMs: take.ttlMs };
}

/** The refusal of an entry; anything else fails the case. */
export async function refusal(
  delivery: Promise<OutcomeOf<"deliver"> | { readonly kind: "unknown" | "unavailable" }>,
): Promise<string> {
  const answer = await delivery;
  const others = ["delivered", "applied", "run_busy", "unknown", "unavailable"];
  assert.ok(!others.includes(answer.kind), JSON.stringify(answer));
  return answer.kind;
}

type CommitOptions = Partial<Omit<RequestOf<"commit">, "runId" | "guard" | "change">> & {
  readonly change?: Partial<RunChange>;
};

export function commitOf(
  harness: Harness,
  runId: RunId,
  guard: Guard,
  options: CommitOptions = {},
): RequestOf<"commit"> {
  const { tenant } = harness;
  const { change = {}, ...rest } = options;
  const ids = { commitId: harness.id("commit"), expectedVersion: 1, consumed: 0 };
  return { tenant, runId, guard, ...ids, ...rest, change: changeOf(change) };
}

export function commit(harness: Harness, runId: RunId, guard: Guard, options: CommitOptions = {}) {
  return harness.store.commit(commitOf(harness, runId, guard, options), call);
}

/** A run with one job that a worker holds from its first moment. */
export async function runWithClaim(harness: Harness, leaseMs = 60_000, changes: Partial<RunChange> = {}) {
  const runId = harness.runId();
  const terms = harness.claim(leaseMs);
  const job = jobOf(runId, { claim: terms });
  const records = [{ key: "input/build", body: '{"step":"build"}' }];
  const change = { status: "running", jobs: [job], ...changes } as const;
  await harness.admit(harness.newRun({ runId, records, change }));
  return { runId, jobId: job.jobId, token: terms.token, worker: terms.worker };
}

export async function claim(harness: Harness, jobId: JobId, terms = harness.claim()) {
  const request = { tenant: harness.tenant, claims: [{ jobId, terms }] };
  const { answers } = only(await harness.store.claimJobs(request, call), "judged");
  assert.equal(answers.length, 1);
  return answers[0] as (typeof answers)[number];
}

export async function beat(harness: Harness, jobId: JobId, token: ClaimToken, leaseMs = 60_000) {
  const request = { tenant: harness.tenant, beats: [{ jobId, token, leaseMs }] };
  const { answers } = only(await harness.store.heartbeatJobs(request, call), "judged");
  assert.equal(answers.length, 1);
  return answers[0] as (typeof answers)[number];
}

export async function jobState(harness: Harness, jobId: JobId): Promise<string> {
  const answer = await harness.store.getJob({ tenant: harness.tenant, jobId }, call);
  return answer.kind === "job" ? answer.job.state : answer.kind;
}

/** All that can be read of a tenant and one of its runs, to see that nothing changed. */
export async function picture(harness: Harness, runId: RunId): Promise<object> {
  const { store, tenant } = harness;
  const answers: object[] = [
    await store.loadRun({ tenant, runId }, call),
    await store.readTimeline({ tenant, runId, after: 0, limit: 100 }, call),
    await store.listRuns({ tenant, limit: 100 }, call),
    await store.listActive({ tenant, limit: 100 }, call),
    await store.listApprovals({ tenant, limit: 100 }, call),
    await store.listReadyJobs({ tenant, topic: "shell", limit: 100 }, call),
    await store.readEvents({ tenant, after: 0, limit: 100 }, call),
    await store.getJob({ tenant, jobId: jobOf(runId).jobId }, call),
    await store.getTenant({ tenant }, call),
  ];
  for (const collection of ["workflow", "deadLetter"] as const) {
    answers.push(await store.listDocuments({ tenant, collection, after: "", limit: 100 }, call));
  }
  const lock = await store.inspectLock({ tenant, lock: runLock(runId) }, call);
  answers.push(lock.kind === "held" ? { kind: "held", fence: lock.fence } : lock);
  return answers.map((answer) => ({ ...answer, storeTimeMs: 0 }));
}

/** Topic and pool as a picture: `running/waiting` of the topic, running of the pool. */
export async function counts({ store, tenant }: Harness, topic = "shell", pool = "default"): Promise<string> {
  const answer = only(
    await store.countJobs({ tenant, topics: [topic, "other"], pools: [pool, "none"] }, call),
    "counted",
  );
  const [asked, other] = answer.topics;
  const [askedPool, none] = answer.pools;
  assert.deepEqual([asked?.topic, other?.topic, askedPool?.pool, none?.pool], [topic, "other", pool, "none"]);
  assert.deepEqual([other?.running, other?.waiting, none?.running], [0, 0, 0]);
  return `${asked?.running}/${asked?.waiting} ${askedPool?.running}`;
}

type RunWithJobs = { readonly runId: RunId; readonly jobIds: readonly JobId[] };

/** A run with so many jobs of one topic, enqueued for anyone or for these workers. */
export async function runWith(
  harness: Harness,
  amount: number,
  options: { readonly topic?: string; readonly terms?: (index: number) => ClaimTerms } = {},
): Promise<RunWithJobs> {
  const runId = harness.runId();
  const jobs = Array.from({ length: amount }, (_, index) =>
    jobOf(runId, {
      step: `s${index}`,
      topic: options.topic ?? "shell",
      ...(options.terms === undefined ? {} : { claim: options.terms(index) }),
    }),
  );
  await harness.admit(harness.newRun({ runId, change: { jobs } }));
  return { runId, jobIds: jobs.map(({ jobId }) => jobId) };
}

export const inPool = (harness: Harness, pool: string): ClaimTerms => ({ ...harness.claim(), pool });

export async function claimAll(harness: Harness, jobIds: readonly JobId[], terms = () => harness.claim()) {
  const claims = jobIds.map((jobId) => ({ jobId, terms: terms() }));
  const { answers } = only(await harness.store.claimJobs({ tenant: harness.tenant, claims }, call), "judged");
  return answers.map((answer, index) => ({
    ...{ jobId: jobIds[index] as JobId, token: claims[index]?.terms.token as ClaimTerms["token"] },
    said: answer.kind === "claimed" ? answer.kind : answer.because,
  }));
}

export async function callOff(harness: Harness, runId: RunId, change: Partial<RunChange>): Promise<void> {
  const guard = await harness.acquire(runLock(runId), 60_000);
  only(await commit(harness, runId, guard, { change }), "committed");
}

type Swept = Extract<OutcomeOf<"sweep">, { kind: "swept" }>;

export const nothing: Swept = {
  kind: "swept",
  waiting: [],
  unclaimed: [],
  repairs: [],
  lostClaims: 0,
  gates: [],
  queueDeadlines: 0,
};

export function sweepOnce({ store, partition }: Harness) {
  return store.sweep({ partition }, call);
}

/** Sweeps until something of the kind asked for was found; adds up all that was found on the way. */
export async function sweepUntil(
  harness: Harness,
  found: (sum: Swept) => boolean | Promise<boolean>,
): Promise<Swept> {
  let sum = nothing;
  await harness.until(async () => {
    const answer = await sweepOnce(harness);
    if (answer.kind === "swept") sum = added(sum, answer);
    return found(sum);
  });
  return sum;
}

function added(left: Swept, right: Swept): Swept {
  return {
    kind: "swept",
    waiting: [...left.waiting, ...right.waiting],
    unclaimed: [...left.unclaimed, ...right.unclaimed],
    repairs: [...left.repairs, ...right.repairs],
    lostClaims: left.lostClaims + right.lostClaims,
    gates: [...left.gates, ...right.gates],
    queueDeadlines: left.queueDeadlines + right.queueDeadlines,
  };
}

/** Sweeps until the run is not there any more; adds up all that was found on the way. */
export function sweepUntilRemoved(harness: Harness, runId: RunId): Promise<Swept> {
  const { store, tenant } = harness;
  const header = { tenant, runId, records: [] };
  return sweepUntil(harness, async () => (await store.loadRun(header, call)).kind === "not_found");
}

export function take(harness: Harness, runId: RunId) {
  const { tenant } = harness;
  return harness.store.takeRun({ tenant, runId, take: harness.take(), records: [] }, call);
}

export async function entryKinds(harness: Harness, runId: RunId): Promise<readonly string[]> {
  return only(await take(harness, runId), "owned").entries.map(({ kind }) => kind);
}

/** Sweeps all the time until so much of the store's time has passed. */
export async function sweepUntilPast(harness: Harness, afterMs: number): Promise<Swept> {
  const endMs = (await harness.now()) + afterMs;
  let sum = nothing;
  await harness.until(async () => {
    const answer = await sweepOnce(harness);
    if (answer.kind === "swept") sum = added(sum, answer);
    return (await harness.now()) > endMs;
  });
  return sum;
}
