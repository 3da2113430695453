// Work under locks that many want: it checks its lease, takes its time, and writes under its fence.
import {
  approvalLockTerms,
  jobLockTerms,
  type LeaseTerms,
  runLockTerms,
} from "../../../src/control/locks/lease-terms.ts";
import { type Lease, withLease } from "../../../src/control/locks/with-lease.ts";
import type { LockName } from "../../../src/domain/lock.ts";
import { makeRunId, type RunId, type TerminalStatus, terminalStatuses } from "../../../src/domain/run.ts";
import type { Answer } from "../../../src/ports/store.ts";
import type { SeededRandom } from "../../../src/testing/seeded-random.ts";
import { bareChange, bareStart } from "../bare-run.ts";
import type { LockReference } from "../checks/grant-checks.ts";
import type { EndAnswer } from "../end-bare-run.ts";
import type { Node, World } from "../world.ts";
import { abortedEarly } from "./clients.ts";
import { isBare, riskClasses } from "./enders.ts";

/** A lock and how it is held; contenders for one lock differ in their terms. */
type Use = {
  readonly world: World;
  readonly node: Node;
  readonly random: SeededRandom;
  readonly who: string;
  readonly target: LockReference;
  readonly terms: LeaseTerms;
};

export async function runLockUser(world: World, node: Node, name: string): Promise<void> {
  const { kernel, swarm } = world;
  const { clock } = node.process;
  const random = node.process.random.stream(name);
  for (let request = 1; ; request += 1) {
    await clock.sleep(random.integer(1, swarm.thinkMsMax));
    if (kernel.nowMs() >= swarm.chaosMs || world.leaving.has(node.process.name)) return;
    const who = `${node.process.name}/${name}/${request}`;
    const tenant = random.pick(world.tenants);
    const lock = await chooseLock(world, node, random, tenant);
    const use: Use = { world, node, random, who, target: { tenant, lock }, terms: drawTerms(node, random) };
    const signal = abortedEarly(world, node, random);
    const outcome = await withLease(node.ports(), use.target, use.terms, (lease) => work(use, lease), signal);
    kernel.note(who, lock.namespace, lock.name, outcome.kind);
  }
}

async function chooseLock(
  world: World,
  node: Node,
  random: SeededRandom,
  tenant: LockReference["tenant"],
): Promise<LockName> {
  if (random.chance(0.5)) return random.pick(sharedLocks);
  const answer = await node.ports().store.listActive({ tenant, limit: 10 }, { deadlineMs: 200 });
  const runId = answer.kind === "listed" ? answer.runIds.find((found) => isBare(world, found)) : undefined;
  return runId === undefined ? random.pick(sharedLocks) : { namespace: "run", name: runId };
}

const sharedLocks: readonly LockName[] = [
  { namespace: "job", name: "shared" },
  { namespace: "public", name: "shared" },
];

function drawTerms({ config }: Node, random: SeededRandom): LeaseTerms {
  const risk = random.pick(riskClasses);
  const { renewEveryMs: _never, ...unrenewed } = runLockTerms(config, "low", "wait");
  return random.pick<LeaseTerms>([
    runLockTerms(config, risk, "wait"),
    runLockTerms(config, risk, "try_once"),
    jobLockTerms(config),
    // Expires while it is in use, and is taken again by the next write unless somebody else was faster.
    unrenewed,
    // Must stop before its end: the most can go wrong there.
    approvalLockTerms(config),
    approvalLockTerms(config),
    approvalLockTerms(config),
  ]);
}

/** Up to twice the ttl in all: some leases must be renewed to last, others cannot. */
async function work(use: Use, lease: Lease): Promise<void> {
  const { random, who, target, terms } = use;
  if (random.chance(terms.renewEveryMs === undefined ? 0.7 : 0.2)) await holdOn(use, lease);
  const steps = random.integer(1, 8);
  for (let step = 1; step <= steps; step += 1) {
    await pauseAndCheck(use, lease, terms.ttlMs / 4);
    if (random.chance(0.3)) await createRun(use, lease, `${who}/${step}`);
  }
  if (target.lock.namespace === "run") await endLockedRun(use, lease, target.lock.name as RunId);
}

/** Checks so often that a lease that goes on too long is noticed at its end. */
async function holdOn(use: Use, lease: Lease): Promise<void> {
  for (let step = 0; step < 80; step += 1) await pauseAndCheck(use, lease, use.terms.ttlMs / 20);
}

async function pauseAndCheck({ world, node, random, who, target, terms }: Use, lease: Lease, msMax: number) {
  await node.process.clock.sleep(random.integer(1, Math.floor(msMax)), lease.signal);
  lease.check();
  world.grants.observeBelief(target, lease, terms.rule.policy, who);
}

async function createRun({ world, target, random }: Use, lease: Lease, actor: string): Promise<void> {
  const { tenant } = target;
  const run = { ...bareStart, runId: makeRunId(tenant, random.token()), actor };
  const answer = await lease.write("createRun", { tenant, run });
  if (answer.kind !== "admitted" && answer.kind !== "unknown") world.history.refused(actor, answer.kind);
}

async function endLockedRun({ world, target, random, who }: Use, lease: Lease, runId: RunId): Promise<void> {
  const { tenant } = target;
  const status = random.pick(terminalStatuses);
  // What another owner committed since it was read makes this end stale, as it should.
  const expectedVersion = world.known.run(runId)?.version ?? 1;
  const change = bareChange(status);
  const commit = { tenant, runId, commitId: who, expectedVersion, consumed: 0, change };
  const answer = await lease.write("commit", commit);
  world.history.endAnswered({ commitId: who, tenant, runId, status }, endAnswerOf(answer, status));
}

function endAnswerOf(answer: Answer<"commit">, status: TerminalStatus): EndAnswer {
  switch (answer.kind) {
    case "committed":
      return { kind: "ended", status };
    case "stale_version":
    case "stale_fence":
      return { kind: "busy" };
    case "tree_full":
      throw new Error("a commit without children fits every tree");
    case "not_found":
    case "unavailable":
    case "unknown":
      return answer;
  }
}
