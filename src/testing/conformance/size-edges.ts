// The edges of sizes: limits, quotas, pages, batches and what is trimmed, one below, at and one above.
import type { ApprovalId } from "../../domain/approval.ts";
import { drainEntriesMax, retriesWaitingMax } from "../../domain/inbox.ts";
import type { JobId } from "../../domain/job.ts";
import { admissionLock } from "../../domain/lock.ts";
import type { RunId } from "../../domain/run.ts";
import type { Collection } from "../../domain/tenant.ts";
import type { Edge } from "./edge.ts";
import { call, type Harness, key, only } from "./harness.ts";
import {
  approvalOf,
  cancelOf,
  childOf,
  claimAll,
  commit,
  deliver,
  deliverAndOwn,
  inPool,
  resultOf,
  retryOf,
  runLock,
  runWith,
  runWithClaim,
  sweepOnce,
  take,
} from "./run-steps.ts";

/** Does it so many times, one after the other. */
async function times(count: number, act: (index: number) => Promise<unknown>): Promise<void> {
  for (let index = 0; index < count; index += 1) await act(index);
}

const numbers = (count: number) => Array.from({ length: count }, (_, index) => index);

async function start({ store, tenant, newRun }: Harness, run: ReturnType<typeof newRun>): Promise<string> {
  const answer = await store.admit({ tenant, run }, call);
  return "limit" in answer && answer.kind !== "admitted" ? `${answer.kind} ${answer.limit}` : answer.kind;
}

/** Under the lock of the other strategy. */
async function create(harness: Harness): Promise<string> {
  const guard = await harness.acquire(admissionLock, 10_000);
  const request = { tenant: harness.tenant, guard, run: harness.newRun() };
  return (await harness.store.createRun(request, call)).kind;
}

function put({ store, tenant }: Harness, collection: Collection, name: string) {
  const document = { tenant, collection, id: name, body: "{}", changeId: name, actor: "editor" };
  return store.putDocument(document, call);
}

const startEdges: readonly Edge[] = [
  {
    name: "a tenant starts as many runs as its limit says",
    decidedBy: ["gates.ts activeAt(context, tenant, gate) < limit && readQueue"],
    below: "admitted admitted",
    at: "max_concurrent_runs_reached 3 max_concurrent_runs_reached",
    above: "max_concurrent_runs_reached 3 max_concurrent_runs_reached",
    async look(harness, offset) {
      await times(3 + offset, () => harness.admit());
      await harness.set({ maxConcurrentRuns: 3 });
      const admitted = await start(harness, harness.newRun());
      if (admitted === "admitted") await harness.set({ maxConcurrentRuns: 4 });
      return `${admitted} ${await create(harness)}`;
    },
  },
  {
    name: "a tenant starts as many runs as its quota says",
    decidedBy: ["runs.ts >= quota"],
    below: "admitted quota_reached",
    at: "quota_reached 3 quota_reached",
    above: "quota_reached 3 quota_reached",
    async look(harness, offset) {
      await times(3 + offset, () => harness.admit());
      await harness.set({ quotas: { active_runs: 3 } });
      return `${await start(harness, harness.newRun())} ${await create(harness)}`;
    },
  },
  {
    name: "a tenant keeps as many keys as it may",
    decidedBy: [
      'reservations.ts context.records.size("reservation", tenant) < context.settings.keysPerTenantMax',
      'reservations.ts context.records.size("keyed", tenant) > 0',
    ],
    below: "admitted kept 3",
    at: "idempotency_quota_reached",
    above: "admitted kept 3",
    async look(harness, offset) {
      const { store, tenant } = harness;
      const texts = numbers(3 + offset).map((index) => `k${index}`);
      const runs: RunId[] = [];
      for (const text of texts.slice(0, 3))
        runs.push(await harness.admit(harness.newRun({ key: key(text) })));
      // One more is there only while one of an ended run can give way to it.
      if (offset === 1) await harness.end(runs[0] as RunId);
      const answer = await store.admit({ tenant, run: harness.newRun({ key: key("last") }) }, call);
      return answer.kind === "admitted" ? `admitted kept ${answer.keysKept}` : answer.kind;
    },
  },
  ...(["apiKey", "workflow", "definition"] as const).map(
    (collection): Edge => ({
      name: `a tenant has as many documents of the collection ${collection} as its quota says`,
      decidedBy: ['documents.ts context.records.size("document", scopeOf(tenant, collection)) >= quota'],
      ...{ below: "saved", at: "saved", above: "quota_reached" },
      async look(harness, offset) {
        await times(2 + offset, (index) => put(harness, collection, `d${index}`));
        return (await put(harness, collection, "last")).kind;
      },
    }),
  ),
  {
    name: "a tree has as many runs as it may",
    decidedBy: ["children.ts sizeOf(root) + newChildren(context, state, children).length <="],
    ...{ below: "committed", at: "committed", above: "tree_full" },
    async look(harness, offset) {
      const runId = await harness.admit();
      const guard = await harness.acquire(runLock(runId), 10_000);
      const children = numbers(3 + offset).map((index) => childOf(harness, { step: `s${index}` }));
      return (await commit(harness, runId, guard, { change: { children } })).kind;
    },
  },
  {
    name: "a tree has as many runs as it may, those counted that came before",
    decidedBy: ["children.ts sizeOf(root) + newChildren(context, state, children).length <="],
    ...{ below: "committed", at: "committed", above: "tree_full" },
    async look(harness, offset) {
      const runId = await harness.admit();
      const first = childOf(harness, { step: "first" });
      await harness.commit(runId, { children: [first] });
      const guard = await harness.acquire(runLock(first.runId), 10_000);
      const children = numbers(2 + offset).map((index) => childOf(harness, { step: `s${index}` }));
      return (await commit(harness, first.runId, guard, { change: { children } })).kind;
    },
  },
  ...(["topic", "pool"] as const).map(
    (of): Edge => ({
      name: `so many jobs of a ${of} run as its limit says`,
      decidedBy: [],
      below: "claimed,claimed",
      at: "claimed,claimed,claimed",
      above: `claimed,claimed,claimed,${of}_full`,
      async look(harness, offset) {
        const limits = { maxRunning: 3 };
        await harness.set(of === "topic" ? { topics: { shell: limits } } : { pools: { gpu: limits } });
        const { jobIds } = await runWith(harness, 3 + offset);
        const terms = () => (of === "topic" ? harness.claim() : inPool(harness, "gpu"));
        return (await claimAll(harness, jobIds, terms)).map(({ said }) => said).join();
      },
    }),
  ),
  {
    name: "a claim that comes with a start has its place up to the limit, too",
    decidedBy: [],
    ...{ below: "claimed,claimed", at: "claimed,claimed,claimed", above: "claimed,claimed,claimed,ready" },
    async look(harness, offset) {
      const { store, tenant } = harness;
      await harness.set({ topics: { shell: { maxRunning: 3 } } });
      const { jobIds } = await runWith(harness, 3 + offset, { terms: () => harness.claim() });
      const states: string[] = [];
      for (const jobId of jobIds)
        states.push(only(await store.getJob({ tenant, jobId }, call), "job").job.state);
      return states.join();
    },
  },
];

async function retriesOf(harness: Harness, count: number): Promise<string> {
  const letters = numbers(count).map((index) => `l${index}`);
  const deadLetters = letters.map((id) => ({ id, reason: "claims_lost" as const, body: "{}" }));
  const { runId, ...job } = await runWithClaim(harness, 60_000, { deadLetters });
  await deliverAndOwn(harness, runId, resultOf(harness, job));
  let last = "";
  for (const letterId of letters) {
    last = (await deliver(harness, runId, retryOf(harness, job.jobId as JobId, { letterId }))).kind;
  }
  return last;
}

const inboxEdges: readonly Edge[] = [
  {
    name: "an owner is handed as many entries as one drain applies",
    decidedBy: [],
    ...{ below: drainEntriesMax - 1, at: drainEntriesMax, above: drainEntriesMax },
    async look(harness, offset) {
      const count = drainEntriesMax + offset;
      const timers = numbers(count).map((index) => ({ timerId: `t${index}`, dueAtMs: 1 }));
      const runId = await harness.admit(harness.newRun({ change: { timers } }));
      const guard = await harness.acquire(runLock(runId), 60_000);
      await Promise.all(
        timers.map(({ timerId }) =>
          deliver(harness, runId, { kind: "timer", entryId: `timer:${timerId}`, timerId }),
        ),
      );
      await harness.release(guard);
      return only(await take(harness, runId), "owned").entries.length;
    },
  },
  {
    name: "and when it commits, as many of those that came meanwhile",
    decidedBy: ["inbox.ts index < amount"],
    ...{ below: drainEntriesMax - 1, at: drainEntriesMax, above: drainEntriesMax },
    async look(harness, offset) {
      const timers = numbers(drainEntriesMax + offset).map((index) => ({ timerId: `t${index}`, dueAtMs: 1 }));
      const runId = await harness.admit(harness.newRun({ change: { timers } }));
      const { guard } = await deliverAndOwn(harness, runId, cancelOf(harness));
      await Promise.all(
        timers.map(({ timerId }) =>
          deliver(harness, runId, { kind: "timer", entryId: `timer:${timerId}`, timerId }),
        ),
      );
      return only(await commit(harness, runId, guard, { consumed: 1 }), "committed").entries.length;
    },
  },
  {
    name: "so many retries wait in a run as may",
    decidedBy: ["retries.ts retryLetters.length < retriesWaitingMax"],
    ...{ below: "delivered", at: "delivered", above: "run_busy" },
    look: (harness, offset) => retriesOf(harness, retriesWaitingMax + offset),
  },
  {
    name: "a run that ended is opened again while the tenant has a slot for it",
    decidedBy: ["gates.ts activeAt(context, tenant, gate) < limit && readQueue"],
    ...{ below: "delivered", at: "max_concurrent_runs_reached", above: "max_concurrent_runs_reached" },
    async look(harness, offset) {
      const { runId, jobId } = await runWithClaim(harness);
      const letter = { id: jobId, reason: "claims_lost", body: "{}" } as const;
      await harness.commit(runId, { status: "failed", deadLetters: [letter] });
      await times(2 + offset, () => harness.admit());
      await harness.set({ maxConcurrentRuns: 2 });
      return (await deliver(harness, runId, retryOf(harness, jobId))).kind;
    },
  },
  {
    name: "a sweep handles a hundred things",
    decidedBy: [
      "sweep.ts due.length < thingsMax",
      "sweep.ts round.length < thingsMax",
      "sweep.ts due.length > 0",
    ],
    ...{ below: "99 then 0", at: "100 then 0", above: "100 then 1" },
    async look(harness, offset, time) {
      const timers = numbers(100 + offset).map((index) => ({ timerId: `t${index}`, dueAtMs: 1 + index }));
      const runId = await harness.admit(harness.newRun({ change: { timers } }));
      const guard = await harness.acquire(runLock(runId), 60_000);
      const applied = async () => {
        await time.pass(500);
        await sweepOnce(harness);
        const { version } = await headerIn(harness, runId);
        const options = { consumed: 1_000, expectedVersion: version };
        const before = await waitingIn(harness, runId, guard.token);
        if (before > 0) only(await commit(harness, runId, guard, { ...options, consumed: 0 }), "committed");
        return before;
      };
      const first = await applied();
      return `${first} then ${(await applied()) - first}`;
    },
  },
];

async function headerIn({ store, tenant }: Harness, runId: RunId) {
  return only(await store.loadRun({ tenant, runId, records: [] }, call), "run").header;
}

/** The entries that wait for an owner which asks again. */
async function waitingIn(
  { store, tenant, take: terms }: Harness,
  runId: RunId,
  token: ReturnType<typeof terms>["token"],
): Promise<number> {
  const again = { token, instance: "host:1", ttlMs: 60_000 };
  return only(await store.takeRun({ tenant, runId, take: again, records: [] }, call), "owned").entries.length;
}

const listEdges: readonly Edge[] = [
  {
    name: "so many event rows are kept as may",
    decidedBy: ["tenants.ts dropped > 0"],
    ...{ below: "1 to 3", at: "1 to 4", above: "2 to 5" },
    async look(harness, offset) {
      const { store, tenant } = harness;
      await times(4 + offset, () => harness.admit());
      const { first, last } = only(await store.readEvents({ tenant, after: 0, limit: 9 }, call), "events");
      return `${first} to ${last}`;
    },
  },
  {
    name: "so many audit records are kept as may",
    decidedBy: ["tenants.ts dropped > 0"],
    ...{ below: "1 to 5", at: "1 to 6", above: "2 to 7" },
    async look(harness, offset) {
      const { store, tenant } = harness;
      await times(6 + offset, () => harness.set({}));
      const trail = await store.readEvents({ tenant, after: 0, limit: 9, of: "trail" }, call);
      const { first, last } = only(trail, "events");
      return `${first} to ${last}`;
    },
  },
  {
    name: "so many rows of a timeline are kept as may",
    decidedBy: ["changes.ts dropped > 0"],
    ...{ below: "1,2,3", at: "1,2,3,4", above: "2,3,4,5" },
    async look(harness, offset) {
      const { store, tenant } = harness;
      const runId = await harness.admit();
      await times(3 + offset, () => harness.commit(runId));
      const timeline = await store.readTimeline({ tenant, runId, after: 0, limit: 9 }, call);
      return only(timeline, "timeline")
        .rows.map(({ version }) => version)
        .join();
    },
  },
  {
    name: "a page of runs says that there is more when it is full",
    decidedBy: ["runs.ts rows.length < scannedMax"],
    ...{ below: "2", at: "3 more", above: "3 more" },
    async look(harness, offset) {
      const { store, tenant } = harness;
      await times(3 + offset, () => harness.admit());
      const { runs, next } = only(await store.listRuns({ tenant, limit: 3 }, call), "listed");
      return next === undefined ? `${runs.length}` : `${runs.length} more`;
    },
  },
  {
    name: "a search of runs looks at so many at once",
    decidedBy: ["runs.ts rows.length < scannedMax"],
    ...{ below: "0", at: "0 more", above: "0 more" },
    async look(harness, offset) {
      const { store, tenant } = harness;
      await Promise.all(numbers(500 + offset).map(() => harness.admit()));
      const wanted = { tenant, limit: 3, workflow: "none" };
      const { runs, next } = only(await store.listRuns(wanted, call), "listed");
      return next === undefined ? `${runs.length}` : `${runs.length} more`;
    },
  },
  {
    name: "a search of approvals looks at so many at once",
    decidedBy: ["approvals.ts rows.length < scannedMax"],
    ...{ below: "0", at: "0 more", above: "0 more" },
    async look(harness, offset) {
      const { store, tenant } = harness;
      const runId = harness.runId();
      const approvals = numbers(500 + offset).map((index) =>
        approvalOf(runId, { approvalId: `${runId}:s${1_000 + index}@1` as ApprovalId }),
      );
      await harness.admit(harness.newRun({ runId, change: { status: "waiting", approvals } }));
      const wanted = { tenant, limit: 3, state: "approved" } as const;
      const found = only(await store.listApprovals(wanted, call), "listed");
      return found.next === undefined ? `${found.approvals.length}` : `${found.approvals.length} more`;
    },
  },
  {
    name: "a page of locks says that there may be more when it is full",
    decidedBy: ["locks.ts locks.length < limit"],
    ...{ below: "2", at: "3 more", above: "3 more" },
    async look(harness, offset) {
      const { store, tenant } = harness;
      await times(3 + offset, (index) => harness.acquire({ namespace: "job", name: `j${index}` }, 10_000));
      const { locks, next } = only(await store.listLocks({ tenant, after: "", limit: 3 }, call), "listed");
      return next === undefined ? `${locks.length}` : `${locks.length} more`;
    },
  },
  {
    name: "audit records are dropped from the first that is kept to the last",
    decidedBy: ["tenants.ts first >= below || below > last + 1", "tenants.ts sequence < below"],
    ...{ below: "3 to 5", at: "3 to 5", above: "4 to 6" },
    async look(harness, offset) {
      const { store, tenant } = harness;
      await times(4, () => harness.set({}));
      await store.dropTrail({ tenant, below: 3, actor: "olga" }, call);
      await store.dropTrail({ tenant, below: 3 + offset, actor: "olga" }, call);
      const trail = await store.readEvents({ tenant, after: 0, limit: 9, of: "trail" }, call);
      const { first, last } = only(trail, "events");
      return `${first} to ${last}`;
    },
  },
  {
    name: "and not beyond the next one",
    decidedBy: ["tenants.ts first >= below || below > last + 1"],
    ...{ below: "4 to 5", at: "5 to 5", above: "1 to 4" },
    async look(harness, offset) {
      const { store, tenant } = harness;
      await times(4, () => harness.set({}));
      await store.dropTrail({ tenant, below: 5 + offset, actor: "olga" }, call);
      const trail = await store.readEvents({ tenant, after: 0, limit: 9, of: "trail" }, call);
      const { first, last } = only(trail, "events");
      return `${first} to ${last}`;
    },
  },
];

export const sizeEdges: readonly Edge[] = [...startEdges, ...inboxEdges, ...listEdges];
