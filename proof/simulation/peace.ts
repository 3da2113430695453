// After the faults every run of a workflow comes to its end by itself, and what it left behind fits together (INV-3, 20, 23, 26).
import { orderedNumber } from "../../src/adapters/operations/records.ts";
import { isTerminal, makeRunId } from "../../src/domain/run.ts";
import type { TenantId } from "../../src/domain/tenant.ts";
import type { KnownRun } from "./checks/known-state.ts";
import { checkRerun } from "./checks/rerun-checks.ts";
import { checkEndedRun } from "./checks/step-checks.ts";
import { allRoles, startEngine } from "./engine-node.ts";
import { mustHold, Violation } from "./invariants/violation.ts";
import { retryEveryLetter } from "./people/letter-keepers.ts";
import { raiseBudgets } from "./people/people.ts";
import { startNode, type World } from "./world.ts";

/** A few leases, back-offs and delays for every step that is left; what takes longer waits for nobody. */
const endWithinMs = 60_000;
const eventsMax = 400_000;

export async function finishWorkflows(world: World): Promise<void> {
  const { kernel, known, swarm } = world;
  if (swarm.workflows === undefined) return;
  const approver = startEngine(world, startNode(world, "peace", { clockSkewMax: 0 }), allRoles);
  world.gateways.push(approver);
  world.keepGoing(approver.process, async () => {
    const random = approver.process.random.stream("approvals");
    while (!world.peace.over) {
      for (const tenant of world.tenants) {
        const listed = await approver.api.listApprovals({ tenant, limit: 100, state: "pending" });
        for (const { approvalId } of listed.kind === "listed" ? listed.approvals : []) {
          const caller = { tenant, actor: `peace ${random.token()}` };
          await approver.api.decideApproval({ caller, approvalId, decision: "approved" });
        }
      }
      await approver.process.clock.sleep(100);
    }
  });
  if (swarm.meters !== undefined) {
    world.tasks.start(approver.process, "raised budgets", () => raiseBudgets(world, approver));
    await kernel.run({ until: () => world.tasks.areOver(), eventsMax });
  }
  for (const tenant of world.tenants) leavePhantomSlot(world, tenant);
  await endAll(world);
  if (approver.process.random.stream("letters").chance(0.5)) {
    world.tasks.start(approver.process, "letters", () => retryEveryLetter(world, approver));
    await kernel.run({ until: () => world.tasks.areOver(), eventsMax });
    await endAll(world);
  }
  mustHold(phantomsLeft(world) === 0, "INV-3", () => "the slot of a run that does not exist is never freed");
  for (const run of known.runs()) {
    if (run.removed || !world.isOfWorkflow(run.runId)) continue;
    checkEndedRun(world.records, run);
    checkRerun(world.records, run);
  }
  world.predicted.check();
  for (const { scope, member } of world.records.all("inbox")) {
    throw new Violation("INV-23", `entry ${member} still waits in ${scope}`);
  }
  await emptyBus(world);
  await repeatMessages(world);
}

async function endAll(world: World): Promise<void> {
  const { kernel, known } = world;
  // Asked before every event: the first one that is left is enough.
  const unfinished = () => {
    for (const run of known.runs()) if (isLeft(world, run)) return run;
    return undefined;
  };
  await kernel.run({
    until: () => unfinished() === undefined && phantomsLeft(world) === 0,
    untilMs: kernel.nowMs() + endWithinMs,
    eventsMax,
  });
  const stuck = unfinished();
  if (stuck !== undefined) throw whyDeadlocked(world, stuck) ?? whyStuck(world, stuck);
}

/** Longer than any handler may take. */
const emptyWithinMs = 120_000;

async function emptyBus({ kernel, bus }: World): Promise<void> {
  await kernel.run({
    until: () => bus.waiting() === 0,
    untilMs: kernel.nowMs() + emptyWithinMs,
    eventsMax,
  });
  mustHold(bus.waiting() === 0, "INV-23", () => `${bus.waiting()} messages are delivered for ever`);
}

/** INV-24: whatever was published last comes again, when nobody remembers its id and its run has ended. */
async function repeatMessages(world: World): Promise<void> {
  for (const { stream, sent } of world.busChecks.toRepeat()) world.bus.repeat(stream, sent);
  await emptyBus(world);
}

/** A slot without a run, as a failover may leave it, next to one with a run: a tenant without any is not visited. */
function leavePhantomSlot({ known, records, server, swarm }: World, tenant: TenantId): void {
  if (records.size("active", tenant) === 0 || swarm.storeSettings.proveEveryMs > 1_000) return;
  const member = `${orderedNumber(server.timeMs())} ${makeRunId(tenant, "phantom00")}`;
  records.put("active", tenant, member, {});
  records.takeChanges();
  known.tenant(tenant).phantoms.add(member);
}

function phantomsLeft({ known, tenants }: World): number {
  return tenants.reduce((sum, tenant) => sum + known.tenant(tenant).phantoms.size, 0);
}

function isLeft(world: World, { runId, status }: KnownRun): boolean {
  return !isTerminal(status) && world.isOfWorkflow(runId);
}

function waitsFor(steps: readonly string[], { runId }: KnownRun): boolean {
  return steps.some((text) => text.includes('"waitingFor":"child_run"') && text.includes(runId));
}

/** What a run that does not end waits for says which promise was broken. */
function whyStuck({ records, known }: World, { tenant, runId, status }: KnownRun): Violation {
  const scope = `${tenant}/${runId}`;
  if (status === "queued") return new Violation("INV-37", `${runId} waits for its places for ever`);
  const entries = records.size("inbox", scope);
  if (records.get("run", tenant, runId)?.gates?.released && entries > 0)
    return new Violation("INV-37", `${runId} waits for ever to come back`);
  if (entries > 0) return new Violation("INV-23", `${entries} entries wait in ${runId}, which is ${status}`);
  const open = records.scan("job", scope, "", 1_000).map(({ value }) => value);
  const job = open.find(
    ({ state }) => state === "held" || state === "ready" || state === "parked" || state === "claimed",
  );
  if (job !== undefined) return new Violation("INV-20", `job ${job.jobId} is ${job.state} for ever`);
  const approved = records
    .scan("approval", tenant, `${runId}:`, 100)
    .find(({ member, value }) => member.startsWith(`${runId}:`) && value.state === "approved");
  const steps = records
    .scan("runRecord", scope, "step/", 100)
    .filter(({ member }) => member.startsWith("step/"))
    .map(({ member, value }) => `${member} ${value.body}`);
  const timers = records
    .scan("timer", scope, "", 100)
    .map(({ member, value }) => `${member} ${value.dueAtMs}`);
  const unheard = known.childrenOf(runId).find((child) => isTerminal(child.status) && waitsFor(steps, child));
  if (unheard !== undefined)
    return new Violation("children", `${runId} never heard that ${unheard.runId} has ended`);
  const state = `${status}; ${steps.join("; ")}; timers: ${timers.join(", ")}`;
  const invariant = approved !== undefined && timers.length === 0 ? "INV-26" : "INV-3";
  return new Violation(invariant, `run ${runId} does not end: ${state}`);
}

/** Said of a run that did not end by itself, when nothing but the limit can have kept it from going on. */
function whyDeadlocked({ known }: World, run: KnownRun): Violation | undefined {
  const { settings, active } = known.tenant(run.tenant);
  const limit = settings.maxConcurrentRuns;
  if (limit === undefined || active.size < limit) return undefined;
  const child =
    run.parent === undefined ? known.childrenOf(run.runId).find(({ status }) => !isTerminal(status)) : run;
  if (child === undefined) return undefined;
  return new Violation(
    "INV-28",
    `${child.runId} is ${child.status}, its parent waits for it, and the ${limit} slots of ${run.tenant} are taken for ever`,
  );
}
