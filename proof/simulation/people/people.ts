// People and programs that ask a gateway: they start runs of workflows, decide approvals, cancel runs and delete them.

import type { Approval } from "../../../src/domain/approval.ts";
import type { JsonValue } from "../../../src/domain/fingerprint.ts";
import type { RunId } from "../../../src/domain/run.ts";
import { isTerminal } from "../../../src/domain/run.ts";
import type { TenantId } from "../../../src/domain/tenant.ts";
import { errors } from "../../../src/errors.ts";
import type { SeededRandom } from "../../../src/testing/seeded-random.ts";
import type { StartAttempt } from "../checks/history.ts";
import { predictedId } from "../checks/predicted-runs.ts";
import type { EngineNode } from "../engine-node.ts";
import { drawFlowControl, nameGates } from "../gated-swarm.ts";
import { mustHold } from "../invariants/violation.ts";
import { drawFlowLimits, raised } from "../metered-swarm.ts";
import { drawParent, parentId } from "../narrow-swarm.ts";
import type { World } from "../world.ts";
import { abortedEarly, drawKey } from "./clients.ts";
import { changeTenant, credentials } from "./operators.ts";
import { drawWorkflow } from "./workflow-shapes.ts";

type Actor = (world: World, node: EngineNode, random: SeededRandom, who: string) => Promise<void>;

/** Acts again and again until the chaos is over. */
export function repeating(act: Actor) {
  return async (world: World, node: EngineNode, name: string): Promise<void> => {
    const random = node.process.random.stream(name);
    for (let request = 1; ; request += 1) {
      await node.process.clock.sleep(random.integer(1, world.swarm.thinkMsMax));
      if (world.kernel.nowMs() >= world.swarm.chaosMs || world.leaving.has(node.process.name)) return;
      await act(world, node, random, `${node.process.name}/${name}/${request}`);
    }
  };
}

const workflowIds = ["first", "second", "third"] as const;

/** Every tenant gets its workflows before anything can start; some change while they are used. */
export async function saveWorkflows(world: World, node: EngineNode): Promise<void> {
  const random = node.process.random.stream("workflows");
  for (const tenant of world.tenants) {
    const plain = workflowIds.map((id) => drawWorkflow(random, id, world.swarm.leaseMs));
    const parents =
      world.swarm.tight || world.swarm.large ? drawParent(node.process.random.stream("parents")) : [];
    for (const drawn of [...parents, ...world.predicted.draw(tenant, random), ...plain]) {
      const caller = { tenant, actor: "author" };
      const definition = withFlowControl(world, node, drawn);
      while ((await node.api.saveWorkflow({ caller, definition })).kind !== "saved") {
        // The operator's first change may have failed, which named the gates.
        if (world.swarm.gates !== undefined) await changeTenant(node, tenant, (given) => nameGates(given));
        await node.process.clock.sleep(50);
      }
    }
  }
}

/** Children take no gates, and those whose end is predicted wait for the tenant alone. */
const ungated: readonly string[] = ["child", predictedId];

function withFlowControl({ swarm }: World, node: EngineNode, definition: JsonValue): JsonValue {
  const { id } = definition as { readonly id: string };
  if (swarm.gates === undefined || ungated.includes(id)) return definition;
  const random = node.process.random.stream("gates");
  const gated = { ...(definition as object), ...drawFlowControl(random, id, swarm.gates) };
  const { meters } = swarm;
  return meters === undefined ? gated : drawFlowLimits(node.process.random.stream("meters"), gated, meters);
}

/** With budgets that hold nobody any more. */
export async function raiseBudgets(world: World, node: EngineNode): Promise<void> {
  const random = node.process.random.stream("raised");
  for (const tenant of world.tenants) {
    const plain = workflowIds.map((id) => drawWorkflow(random, id, world.swarm.leaseMs));
    for (const drawn of [...drawParent(random), ...plain]) {
      const definition = drawFlowLimits(random, drawn, raised);
      const saved = await node.api.saveWorkflow({ caller: { tenant, actor: "author" }, definition });
      mustHold(
        saved.kind === "saved",
        "liveness",
        () => `a workflow of ${tenant} cannot be saved: ${saved.kind}`,
      );
    }
  }
}

export const changeWorkflow: Actor = async (world, node, random) => {
  const caller = { tenant: random.pick(world.tenants), actor: "author" };
  const drawn = drawWorkflow(random, random.pick(workflowIds), world.swarm.leaseMs);
  const definition = withFlowControl(world, node, drawn);
  const saved = await node.api.saveWorkflow({ caller, definition });
  if (saved.kind === "saved" && saved.revision > 1) world.marks.hit("workflow_saved_again");
};

export const startWorkflow: Actor = async (world, node, random, who) => {
  const { kernel, history, swarm } = world;
  const tenant = random.pick(world.tenants);
  const key = random.chance(swarm.keylessRate) ? undefined : drawKey(world, random);
  const drawn = random.pick([...workflowIds, predictedId, ...(swarm.large ? [parentId] : [])]);
  const workflow = swarm.tight && kernel.nowMs() < swarm.chaosMs / 2 ? parentId : drawn;
  const numbers = { n: random.integer(0, 4), list: [random.integer(0, 4), random.integer(0, 4)] };
  const input = { what: random.pick(["a", "b"]), flag: random.chance(0.7), ...numbers };
  for (let attempt = 1; attempt <= 3; attempt += 1) {
    const actor = `${who}/${attempt}`;
    const asked: StartAttempt = key === undefined ? { actor, tenant } : { actor, tenant, key };
    history.startAsked(asked);
    const caller = { tenant, actor, credential: random.pick(credentials) };
    const asWorkflowSays = swarm.gates === undefined || random.chance(0.7);
    const priority = asWorkflowSays ? {} : { priority: random.integer(0, 9) };
    const request = { caller, workflow, input, ...priority, ...(key === undefined ? {} : { key }) };
    const answered = world.failClosed.begin(node.process, `start ${actor}`);
    const answer = await node.api.startWorkflow(request, abortedEarly(world, node, random));
    kernel.note(actor, workflow, key?.text ?? "no key", answer.kind);
    if (
      answer.kind === "workflow_not_found" ||
      answer.kind === "input_invalid" ||
      answer.kind === "start_expression_failed"
    )
      return;
    answered(answer);
    history.startAnswered(asked, answer);
    if (
      answer.kind === "admitted" ||
      answer.kind === "queued" ||
      answer.kind === "replayed" ||
      !errors[answer.kind].retryable
    )
      return;
    await node.process.clock.sleep(random.integer(10, 500));
  }
};

/** Several at once on the same approvals; wrong hashes, own runs, and what was decided long ago. */
export const decideSomething: Actor = async (world, node, random, who) => {
  const tenant = random.pick(world.tenants);
  const state = random.chance(0.9) ? ({ state: "pending" } as const) : {};
  const listed = await node.api.listApprovals({ tenant, limit: 20, ...state });
  if (listed.kind !== "listed" || listed.approvals.length === 0) return;
  await decide(world, node, random, { tenant, approval: random.pick(listed.approvals), who });
};

type Case = { readonly tenant: TenantId; readonly approval: Approval; readonly who: string };

async function decide(world: World, node: EngineNode, random: SeededRandom, { tenant, approval, who }: Case) {
  const { approvalId, hash, requester } = approval;
  const own = random.chance(0.2);
  const by = own ? requester : who;
  const decision = random.chance(0.7) ? "approved" : "rejected";
  const shown = random.chance(0.1) ? { hash: "what somebody else saw" } : random.chance(0.5) ? { hash } : {};
  const caller = { tenant, actor: by, credential: random.pick(credentials) };
  const answered = world.failClosed.begin(node.process, `${decision} of ${approvalId}`);
  const answer = await node.api.decideApproval({ caller, approvalId, decision, ...shown });
  answered(answer);
  world.kernel.note(by, decision, approvalId, answer.kind);
  world.actions.rulingAnswered({ tenant, approvalId, decision, by, own }, answer);
}

export const cancelSomething: Actor = async (world, node, random, who) => {
  const tenant = random.pick(world.tenants);
  const found = await pickRun(world, node, random, tenant);
  if (found === undefined) return;
  const answered = world.failClosed.begin(node.process, `cancel of ${found}`);
  const answer = await node.api.cancelRun({
    caller: { tenant, actor: who },
    runId: found,
    reason: "no longer wanted",
  });
  answered(answer);
  world.kernel.note(who, "cancel", found, answer.kind);
  world.actions.cancelAnswered(tenant, found, answer);
};

/** To the head of its queue, or behind those of a priority. */
export const moveSomething: Actor = async (world, node, random, who) => {
  const tenant = random.pick(world.tenants);
  const listed = await node.api.listGates({ tenant, after: "", limit: 20 });
  if (listed.kind !== "listed" || listed.gates.length === 0) return;
  const { gate } = random.pick(listed.gates);
  const found = await node.api.inspectGate({ tenant, gate, limit: 10 });
  if (found.kind !== "gate" || found.queue.length === 0) return;
  const { runId } = random.pick(found.queue);
  const to = random.chance(0.4) ? "head" : random.integer(0, 9);
  const caller = { tenant, actor: who, credential: random.pick(credentials) };
  const answered = world.failClosed.begin(node.process, `move of ${runId}`);
  const answer = await node.api.moveQueued({ caller, runId, to });
  answered(answer);
  world.kernel.note(who, "move", runId, to, answer.kind);
  if (answer.kind === "moved") world.marks.hit("run_moved");
};

export const deleteSomething: Actor = async (world, node, random, who) => {
  const tenant = random.pick(world.tenants);
  const found = await pickRun(world, node, random, tenant);
  if (found === undefined) return;
  const run = world.known.run(found);
  if (run === undefined) return;
  if (!isTerminal(run.status) && !random.chance(0.1)) return;
  const answer = await node.api.deleteRun({ caller: { tenant, actor: who }, runId: found });
  world.kernel.note(who, "delete", found, answer.kind);
};

/** Takes runs and dies before it commits anything: five of them in a row set an entry aside. */
export const takeInVain: Actor = async (world, node, random) => {
  const tenant = random.pick(world.tenants);
  const found = await pickRun(world, node, random, tenant);
  if (found === undefined) return;
  const { store } = node.ports();
  const ttlMs = random.integer(1, 60);
  for (let tries = 0; tries < 6; tries += 1) {
    const take = { token: random.token() as never, instance: node.process.name, ttlMs };
    const answer = await store.takeRun({ tenant, runId: found, take, records: [] }, { deadlineMs: 200 });
    if (answer.kind === "empty" || answer.kind === "not_found") return;
    await node.process.clock.sleep(ttlMs + 2);
  }
};

/** A run of a workflow, mostly a recent one. */
async function pickRun(
  world: World,
  node: EngineNode,
  random: SeededRandom,
  tenant: TenantId,
): Promise<RunId | undefined> {
  const listed = await node.api.listRuns({ tenant, limit: 10 });
  if (listed.kind !== "listed") return undefined;
  const runs = listed.runs.filter(({ runId }) => world.isOfWorkflow(runId));
  // Most runs of a list have ended; what is still under way is what there is to disturb.
  const live = runs.filter(({ status }) => !isTerminal(status));
  const chosen = live.length > 0 && random.chance(0.5) ? live : runs;
  return chosen.length === 0 ? undefined : random.pick(chosen).runId;
}
