// After the faults: everything that was begun ends, and nothing that was left behind is in anybody's way (INV-3, 7, 15).
import { jobLockTerms, type LeaseTerms, runLockTerms } from "../../src/control/locks/lease-terms.ts";
import { withLease } from "../../src/control/locks/with-lease.ts";
import { isTerminal } from "../../src/domain/run.ts";
import type { TenantSettings } from "../../src/domain/tenant.ts";
import { noStoreFaults } from "../../src/testing/store-link.ts";
import { noBusFaults } from "./bus/simulated-bus.ts";
import type { StartAttempt } from "./checks/history.ts";
import { peacefulGates } from "./gated-swarm.ts";
import { mustHold } from "./invariants/violation.ts";
import { peacefulMeters } from "./metered-swarm.ts";
import { finishWorkflows } from "./peace.ts";
import { start } from "./people/clients.ts";
import { end } from "./people/enders.ts";
import { changeTenant } from "./people/operators.ts";
import { type Node, startNode, type World } from "./world.ts";

/** Far more than healing takes: what it stops are loops without an end. */
const eventsMax = 200_000;

export async function healAndCheck(world: World): Promise<void> {
  const { kernel, server, tasks } = world;
  kernel.note("healed");
  server.setFaults(noStoreFaults);
  server.heal();
  world.stream?.heal();
  world.bus.setFaults(noBusFaults);
  world.bus.heal();
  world.peace.begun = true;
  await runUntilDone(world);
  const probes = [
    startNode(world, "probe-atomic", { strategy: "atomic", clockSkewMax: 0 }),
    startNode(world, "probe-lock", { strategy: "lock", clockSkewMax: 0 }),
  ] as const;
  const [operator] = probes;
  const first = peacefulMeters(world.swarm, peacefulGates(world.swarm));
  tasks.start(operator.process, "limits", () => liftLimits(world, operator, first));
  await runUntilDone(world);
  await finishWorkflows(world);
  if (Object.keys(first).length > 0) {
    tasks.start(operator.process, "all limits", () => liftLimits(world, operator, {}));
    await runUntilDone(world);
  }
  world.peace.over = true;
  tasks.start(operator.process, "probe", async () => {
    await operator.process.clock.sleep(longestLeaseMs(operator));
    await checkLocks(world, operator);
    await checkKeys(world, probes);
    await checkSlots(world, operator);
  });
  await runUntilDone(world);
}

async function runUntilDone({ kernel, tasks }: World): Promise<void> {
  const end = await kernel.run({ until: () => tasks.areOver(), eventsMax });
  mustHold(end.kind === "done", "liveness", () => `${end.kind}, but not ended: ${tasks.unfinished()}`);
}

async function liftLimits(world: World, node: Node, left: TenantSettings): Promise<void> {
  for (const tenant of world.tenants) {
    const saved = await changeTenant(node, tenant, () => left);
    // A change that was still on its way may have come in between, once.
    const settled = saved || (await changeTenant(node, tenant, () => left));
    mustHold(settled, "liveness", () => `${tenant} cannot be changed although nothing fails any more`);
  }
}

/** After this time no lock of a dead or gone holder can still be held, no check be under way, nor a late request still arrive. */
function longestLeaseMs({ config }: Node): number {
  const ttls = (["admission", "run", "job", "approval"] as const).map(
    (lock) => config[`locks.${lock}.ttlMs`],
  );
  return Math.max(...ttls) + config["dispatch.checkTimeoutMs"] + 1_000;
}

/** INV-15: each is free at the first try, but a job's lock: a scheduler that lives may look at the job just then, for a moment. */
async function checkLocks({ grants, kernel }: World, node: Node): Promise<void> {
  const atOnce: LeaseTerms = runLockTerms(node.config, "standard", "try_once");
  for (const target of grants.locks()) {
    const terms = target.lock.namespace === "job" ? { ...jobLockTerms(node.config), waitMs: 500 } : atOnce;
    const outcome = await withLease(node.ports(), target, terms, async () => "held");
    kernel.note("probe", target.tenant, target.lock.namespace, outcome.kind);
    const { namespace, name } = target.lock;
    mustHold(
      outcome.kind === "finished",
      "INV-15",
      () =>
        `${namespace}/${name} of ${target.tenant} cannot be had: ${outcome.kind}${outcome.kind === "busy" ? ` by ${outcome.instance}` : ""}`,
    );
  }
}

/** INV-7: each key answers with its run, or starts one. */
async function checkKeys(world: World, nodes: readonly [Node, Node]): Promise<void> {
  const { history, known, server } = world;
  for (const [index, { tenant, key }] of history.keys().entries()) {
    const run = known.runOfKey(tenant, key.digest, server.timeMs());
    // A key that ends while it is asked for may go either way.
    if (run !== known.runOfKey(tenant, key.digest, server.timeMs() + 5_000)) continue;
    const asked: StartAttempt = { actor: `probe/${index}`, tenant, key: { ...key, ...run?.key } };
    const answer = await start(world, nodes[index % 2] as Node, asked);
    // That the quota is spent was checked by the answer itself.
    const full = run === undefined && answer.kind === "idempotency_quota_reached";
    mustHold(
      full || answer.kind === (run === undefined ? "admitted" : "replayed"),
      "INV-7",
      () => `key ${key.text} of ${tenant}, ${run === undefined ? "free" : `of ${run.runId}`}: ${answer.kind}`,
    );
  }
}

/** INV-3: once every run has ended, no slot is taken. */
async function checkSlots(world: World, node: Node): Promise<void> {
  const { known, state, server } = world;
  state.checkAllSlots();
  for (const { runId, tenant, status } of [...known.runs()]) {
    if (isTerminal(status)) continue;
    const asked = { commitId: `probe/end ${runId}`, tenant, runId, status: "succeeded" } as const;
    const answer = await end(world, node, asked, "standard");
    mustHold(answer.kind === "ended", "INV-3", () => `run ${runId} cannot be ended: ${answer.kind}`);
  }
  state.checkAllSlots();
  for (const tenant of world.tenants) {
    const taken = server.records.size("active", tenant);
    mustHold(taken === 0, "INV-3", () => `${tenant} has ${taken} slots taken after every run has ended`);
  }
}
