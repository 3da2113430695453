// Turns a command of the differential test into a request, with what the player knows of its store.
import type { ApprovalId } from "../../src/domain/approval.ts";
import type { NewEntry } from "../../src/domain/inbox.ts";
import { type ClaimToken, type JobId, makeJobId } from "../../src/domain/job.ts";
import type { Guard, LockName, LockToken } from "../../src/domain/lock.ts";
import { type RunChange, unchanged } from "../../src/domain/run.ts";
import { partitionOf, storeQuotaNames, type TenantId, type TenantSettings } from "../../src/domain/tenant.ts";
import type { NewRun } from "../../src/ports/admission-operations.ts";
import type { OperationName, RequestOf } from "../../src/ports/store.ts";
import { key } from "../../src/testing/conformance/harness.ts";
import { changeOf, letterId, type Scene } from "./differential-changes.ts";
import { type CallCommand, ttls } from "./differential-commands.ts";
import { gateOf, limitsOfGates, planOf, queueLimitsOf, queuePlanOf } from "./differential-gate-requests.ts";
import type { Knowledge } from "./differential-knowledge.ts";

export function requestOf(
  command: CallCommand,
  known: Knowledge,
  place: { readonly tenant: TenantId; readonly step: number },
): RequestOf<OperationName> {
  const { tenant } = place;
  const isNew = command.stranger || ["admit", "createRun", "reserve"].includes(command.name);
  const runId = isNew
    ? known.runId(tenant, command.run)
    : known.descendant(known.existing(tenant, command.run), command.generation);
  const scene: Scene = { command, known, ...place, runId };
  return builders[command.name](scene);
}

const builders: { readonly [Name in OperationName]: (scene: Scene) => RequestOf<Name> } = {
  acquireLock: (scene) => ({
    ...{ tenant: scene.tenant, lock: lockOf(scene), token: newTokenOf(scene) },
    ...{ instance: "host:1", ttlMs: ttlOf(scene), ...credential(scene) },
    ...(scene.command.proposes ? { owner: 'an "owner" %' } : {}),
    ...(scene.command.queues ? ticketOf(scene) : scene.command.inbox ? { token: ticketOf(scene).token } : {}),
  }),
  renewLock: (scene) => ({ ...lockRequest(scene), ttlMs: ttlOf(scene) }),
  releaseLock: (scene) => ({
    ...lockRequest(scene),
    ...(scene.command.queues && scene.command.inbox ? { token: ticketOf(scene).token } : {}),
  }),
  inspectLock: (scene) => ({ tenant: scene.tenant, lock: lockOf(scene) }),
  listLocks: (scene) => ({
    ...{ tenant: scene.tenant, limit: scene.command.page },
    after: scene.command.inbox ? `${lockOf(scene).namespace}/${lockOf(scene).name}` : "",
  }),
  breakLock: (scene) => {
    const { tenant, lock, token } = lockRequest(scene);
    return {
      tenant,
      lock,
      fence: scene.known.fence(tenant, lock, token),
      actor: "a b",
      reason: 'it "hangs"',
      ...credential(scene),
    };
  },
  getTenant: ({ tenant }) => ({ tenant }),
  setTenant: ({ command, known, tenant, step }) => ({
    ...{ tenant, changeId: `change${step}`, actor: "a", ...credential({ command }) },
    expectedVersion: known.tenantVersion(tenant) + command.versionOffset,
    settings: {
      ...(command.limit === undefined ? {} : { maxConcurrentRuns: command.limit }),
      ...(command.strategy === undefined ? {} : { admissionStrategy: command.strategy }),
      ...(command.stopped ? { stopped: true } : {}),
      ...(command.revoked ? { revokedKeyIds: ["key_1", "key_3"] } : {}),
      ...(command.stopped && command.inbox ? { removed: true as const } : {}),
      ...limitsOf(command.limits),
      ...(command.gates === undefined ? {} : { gates: { "c.r": { max: command.gates % 2 } } }),
      ...quotasOf(command),
      ...(command.plan?.max === undefined ? {} : { gates: { "c.r": { max: command.plan.max } } }),
    },
  }),
  admit: (scene) => ({
    ...{ tenant: scene.tenant, run: newRun(scene), ...credential(scene) },
  }),
  reserve: (scene) => ({
    ...{ tenant: scene.tenant, runId: scene.runId, key: keyOf(scene) },
    guard: guardOf(scene, admission),
  }),
  cancelReservation: (scene) => ({
    ...{ tenant: scene.tenant, runId: scene.runId, digest: keyOf(scene).digest },
    token: ownerOf(scene, admission),
  }),
  countActive: ({ tenant }) => ({ tenant }),
  countUsage: ({ tenant }) => ({ tenant }),
  createRun: (scene) => ({
    ...{ tenant: scene.tenant, run: newRun(scene), ...credential(scene) },
    guard: guardOf(scene, admission),
  }),
  loadRun: ({ tenant, runId, command }) =>
    command.inbox ? { tenant, runId, records: ["step/1", "none", "output/0"] } : { tenant, runId },
  listRuns: ({ tenant, command, known }) => ({
    ...{ tenant, limit: command.page },
    ...(command.proposes ? { before: known.runId(tenant, command.pick % 3) } : {}),
    ...(command.stranger ? { status: command.change.status } : {}),
    ...(command.inbox ? { workflow: `w${command.run % 2}` } : {}),
  }),
  readTimeline: ({ tenant, runId, command }) => ({
    tenant,
    runId,
    after: command.consumed,
    limit: command.page,
  }),
  deleteRun: ({ tenant, runId, command }) => ({ tenant, runId, actor: "a", ...credential({ command }) }),
  deliver: deliveryOf,
  takeRun: (scene) => ({ tenant: scene.tenant, runId: scene.runId, ...taking(scene) }),
  commit: (scene) => ({
    ...{ tenant: scene.tenant, runId: scene.runId, consumed: scene.command.consumed },
    guard: guardOf(scene, { namespace: "run", name: scene.runId }),
    ...proposalOf(scene),
  }),
  claimJobs: (scene) => ({
    ...{ tenant: scene.tenant, ...credential(scene) },
    claims: [scene.command.pick, scene.command.pick + 1]
      .slice(0, 1 + (scene.command.page % 2))
      .map((pick) => ({
        jobId: jobAt(scene, pick),
        terms: {
          token: `claim${scene.step}-${pick}` as ClaimToken,
          worker: "worker 1",
          leaseMs: ttlOf(scene),
          ...poolOf(scene),
        },
      })),
  }),
  heartbeatJobs: (scene) => ({
    tenant: scene.tenant,
    beats: [scene.command.pick, scene.command.pick + 1].map((pick) => ({
      ...{ jobId: jobAt(scene, pick), token: tokenOf(scene, jobAt(scene, pick)), leaseMs: ttlOf(scene) },
      ...(scene.command.inbox ? { progress: `{"at": ${scene.step}}` } : {}),
    })),
  }),
  getJob: (scene) => ({ tenant: scene.tenant, jobId: jobAt(scene, scene.command.pick) }),
  listReadyJobs: ({ tenant, command }) => ({
    tenant,
    topic: `topic ${command.pick % 2}`,
    limit: command.page,
  }),
  countJobs: ({ tenant }) => ({
    tenant,
    topics: ["topic 0", "topic 1"],
    pools: ["default", "p 1", "p 2"],
  }),
  getApproval: (scene) => ({ tenant: scene.tenant, approvalId: approvalAt(scene) }),
  listApprovals: (scene) => ({
    ...{ tenant: scene.tenant, limit: scene.command.page },
    ...(scene.command.proposes ? { before: approvalAt(scene) } : {}),
    ...(scene.command.inbox ? { state: scene.command.stranger ? "approved" : "pending" } : {}),
  }),
  putDocument: (scene) => {
    const { command, known, tenant, step } = scene;
    const { collection, id } = documentOf(scene);
    const expectedRevision = known.revision(tenant, collection, id) + command.versionOffset;
    const base = {
      tenant,
      collection,
      id,
      body: `{"${step % 4 === 0 ? "other" : "d"}": ${step}}`,
      changeId: `change${step}`,
      actor: "a",
      ...credential(scene),
    };
    const limits = collection === "workflow" ? { ...limitsOfGates(command), ...queueLimitsOf(command) } : {};
    const saved = { ...base, ...limits };
    return command.proposes ? { ...saved, expectedRevision: Math.max(0, expectedRevision) } : saved;
  },
  getDocument: (scene) => ({ tenant: scene.tenant, ...documentOf(scene) }),
  listDocuments: (scene) => ({
    ...{ tenant: scene.tenant, collection: documentOf(scene).collection },
    ...{ after: scene.command.proposes ? documentOf(scene).id : "", limit: scene.command.page },
  }),
  removeDocument: (scene) => ({
    tenant: scene.tenant,
    ...documentOf(scene),
    actor: "a",
    ...credential(scene),
  }),
  handOn: ({ tenant, command }) => ({ tenant, gate: gateOf(command) }),
  listGates: ({ tenant, command }) => ({
    ...{ tenant, limit: command.page },
    after: command.inbox ? "" : gateOf(command),
  }),
  inspectGate: ({ tenant, command }) => ({ tenant, gate: gateOf(command), limit: command.page }),
  listLedgers: ({ tenant, command }) => ({ tenant, after: "", limit: command.page }),
  moveQueued: ({ tenant, runId, command }) => ({
    ...{ tenant, runId, actor: "a b", moveId: `move-${command.consumed}-${command.page}` },
    ...credential({ command }),
    to: command.proposes ? "head" : command.pick,
  }),
  findDue: ({ tenant }) => ({ partitions: [partitionOf(tenant)] }),
  sweep: ({ tenant }) => ({ partition: partitionOf(tenant) }),
  listActive: ({ tenant, command }) => ({ tenant, limit: 10, describe: command.page }),
  inspectReservation: (scene) => ({ tenant: scene.tenant, digest: keyOf(scene).digest }),
  readEvents: ({ tenant, command }) => ({
    ...{ tenant, after: command.consumed, limit: 1 + command.page },
    ...(command.proposes ? { of: "trail" } : {}),
  }),
  dropTrail: ({ tenant, command }) => ({ tenant, below: 1 + command.consumed, actor: "a" }),
};

const admission: LockName = { namespace: "admission", name: "" };

function lockRequest(scene: Scene) {
  return { tenant: scene.tenant, lock: lockOf(scene), token: ownerOf(scene, lockOf(scene)) };
}

/** New tokens come up all the time: one that gave its place back is not used again. The lock is granted for long. */
function ticketOf({ command, step }: Scene) {
  const token = `ticket %${command.pick % 4} ${Math.floor(step / 8)}` as LockToken;
  return { token, ticketMs: ttls[command.ttl], ttlMs: ttls.long };
}

function lockOf(scene: Scene): LockName {
  const { command, runId } = scene;
  if (command.lock === 0) return admission;
  if (command.lock === 3 && !command.queues) return jobLock(jobAt(scene, command.pick));
  return command.lock === 1 && !command.queues
    ? { namespace: "run", name: runId }
    : { namespace: "public", name: command.pick % 3 === 0 ? "c" : "a:b %{}" };
}

function jobLock(jobId: JobId): LockName {
  return { namespace: "job", name: jobId };
}

function ttlOf({ command }: Scene): number {
  return ttls[command.ttl];
}

/** Who is known to have the lock, or anybody. */
function ownerOf({ command, known, tenant }: Scene, lock: LockName): LockToken {
  const owner = command.stranger ? undefined : known.owner(tenant, lock);
  return (owner ?? `token${command.token}`) as LockToken;
}

/** Tokens that had a public lock are refused from then on: new ones come up, more slowly than those of tickets. */
function newTokenOf(scene: Scene): LockToken {
  const { command, step } = scene;
  const turn = lockOf(scene).namespace === "public" ? ` ${Math.floor(step / 16)}` : "";
  return `token${command.token}${turn}` as LockToken;
}

function guardOf(scene: Scene, lock: LockName): Guard {
  const { command, known, tenant } = scene;
  const token = ownerOf(scene, lock);
  return {
    lock,
    token,
    fence: known.fence(tenant, lock, token),
    policy: command.policy,
    ttlMs: ttlOf(scene),
  };
}

/** Few places, so that they are full often. */
function limitsOf(bits: number): Pick<TenantSettings, "topics" | "pools"> {
  const has = (bit: number) => (bits & bit) !== 0;
  const topics = {
    ...(has(1) ? { "topic 0": { maxRunning: 1 } } : {}),
    ...(has(2) ? { "topic 1": { maxRunning: 2 } } : {}),
  };
  const draining = has(8) ? { draining: true as const } : {};
  const pools = {
    ...(has(4) ? { "p 1": { maxRunning: 1, ...draining } } : {}),
    ...(has(16) ? { "p 2": { topics: ["topic 1"] } } : {}),
    ...(has(32) ? { default: { maxRunning: 2 } } : {}),
  };
  return { ...(has(3) ? { topics } : {}), ...(has(52) ? { pools } : {}) };
}

function quotasOf({ quota }: CallCommand): Pick<TenantSettings, "quotas"> {
  if (quota === undefined) return {};
  return { quotas: Object.fromEntries(storeQuotaNames.map((name) => [name, quota])) };
}

function poolOf({ command }: Scene) {
  return command.pool === undefined ? {} : { pool: command.pool };
}

function credential({ command }: Pick<Scene, "command">) {
  return command.credential === undefined ? {} : { credential: command.credential };
}

function keyOf({ command }: Scene) {
  return key(`key${command.key ?? 0}`, `request${command.fingerprint}`);
}

function newRun(scene: Scene): NewRun {
  const { command, known, runId, tenant } = scene;
  const workflow = `w${command.run % 2}`;
  const revision = known.revision(tenant, "workflow", workflow);
  const expects = revision > 0 ? command.page === 1 : command.consumed === 0 && command.stranger;
  const chosen = changeOf(scene, 1);
  const gates = planOf(command, workflow) ?? queuePlanOf(command).gates;
  // A run that may wait is created with its records alone, and begins by its inbox.
  const mayWait = gates !== undefined && command.inbox;
  const change = mayWait ? ({ ...unchanged, status: "pending", ...recordsOf(chosen) } as const) : chosen;
  return {
    ...{ runId, workflow, definition: "d", actor: "a b" },
    ...(expects ? { revision: revision + command.versionOffset } : {}),
    ...(command.key === undefined ? {} : { key: keyOf(scene) }),
    ...(gates === undefined ? {} : { gates }),
    change,
    start: command.inbox && !/^(succeeded|failed|cancelled)$/.test(change.status) ? "inbox" : "applied",
  };
}

function recordsOf({ records, timeline }: RunChange) {
  return { records, timeline };
}

function proposalOf(scene: Scene) {
  const { command, known, runId, step } = scene;
  const expectedVersion = Math.max(0, known.run(runId).version + command.versionOffset);
  return { expectedVersion, commitId: `commit ${step}`, change: changeOf(scene, expectedVersion + 1) };
}

function taking({ command, step }: Scene) {
  const take = { token: `take${step}` as LockToken, instance: "host:2", ttlMs: ttls[command.ttl] };
  return { take, records: ["step/0", "none", "step/1"] };
}

function deliveryOf(scene: Scene): RequestOf<"deliver"> {
  const { command, tenant, runId } = scene;
  const base = { tenant, runId, entry: entryOf(scene), whenBusy: command.whenBusy, ...taking(scene) };
  const proposal = command.proposes ? { proposal: proposalOf(scene) } : {};
  return { ...base, ...proposal, ...credential(scene) };
}

function entryOf(scene: Scene): NewEntry {
  const { command, known, runId, step } = scene;
  const entryId = `entry ${step}`;
  // Of a run that has ended, only a letter is of interest.
  switch (known.run(runId).ended && command.entry === "result" ? "retry" : command.entry) {
    case "result": {
      const jobId = jobAt(scene, command.pick);
      const outcome = command.stranger ? "failed" : "succeeded";
      const payload = { key: `output/${command.pick % 2}`, body: `{"at": ${step}}` };
      const kept = command.pick % 3 === 0 ? { letter: { letterId: letterId(scene), actor: "d e" } } : {};
      return { kind: "result", entryId, jobId, token: tokenOf(scene, jobId), outcome, payload, ...kept };
    }
    case "decision":
      return {
        ...{ kind: "decision", entryId, approvalId: approvalAt(scene) },
        decision: command.stopped ? "rejected" : "approved",
        ...{ hash: command.revoked ? "other" : "h", decidedBy: command.inbox ? "a b" : "b" },
        ...(command.stranger ? { reason: "be cause" } : {}),
        ...(command.proposes ? { decider: { owner: "a b", role: "admin", madeBy: "c" } } : {}),
        ...(command.pick % 3 === 0 ? { unlessSeparate: true } : {}),
      };
    case "cancel":
      return { kind: "cancel", entryId, actor: "c d", reason: 'no "need"' };
    case "timer":
      return { kind: "timer", entryId, timerId: command.pick % 2 === 0 ? "t0" : "deadline" };
    case "retry":
      return {
        ...{ kind: "retry", entryId, letterId: letterId(scene) },
        ...{ jobId: jobAt(scene, command.pick), actor: "d e" },
      };
    case "dispatch": {
      const jobId = jobAt(scene, command.pick);
      const { token, fence } = guardOf(scene, jobLock(jobId));
      return {
        ...{ kind: "dispatch", entryId, jobId, guard: { token, fence } },
        verdict: command.stopped ? "deny" : command.inbox ? "hold" : "allow",
        reason: `be "cause" ${command.page}`,
        ...(command.revoked ? { askAgainMs: command.page } : {}),
      };
    }
  }
}

/** One of the run's jobs; an unknown one for a stranger, or if there are none. */
function jobAt({ command, known, runId }: Scene, pick: number): JobId {
  const { jobs } = known.run(runId);
  const job = command.stranger && command.inbox ? undefined : jobs.at(-1 - (pick % Math.max(1, jobs.length)));
  return job ?? makeJobId({ runId, step: "none", attempt: 1 });
}

function tokenOf({ command, known }: Scene, jobId: JobId): ClaimToken {
  const token = command.stranger ? undefined : known.claimToken(jobId);
  return token ?? ("nobody" as ClaimToken);
}

function approvalAt({ command, known, runId }: Scene): ApprovalId {
  return known.run(runId).approvals.at(-1 - (command.pick % 2)) ?? (`${runId}:none@1` as ApprovalId);
}

function documentOf(scene: Scene) {
  const { command } = scene;
  if (command.lock === 0 || command.inbox) return { collection: "deadLetter", id: letterId(scene) } as const;
  // Keys are what a removed tenant gets no more of.
  if (command.stranger) return { collection: "apiKey", id: `k${command.pick % 3}` } as const;
  return { collection: "workflow", id: `w${command.pick % 3}` } as const;
}
