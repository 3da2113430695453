// The people and workers of one tenant in the comparison of tenants, at gateways that all of them share.
import type { Fingerprint } from "../../src/domain/fingerprint.ts";
import type { TenantId } from "../../src/domain/tenant.ts";
import type { SimulatedProcess } from "../../src/testing/simulated-process.ts";
import { predictedId } from "./checks/predicted-runs.ts";
import { type EngineNode, startEngine } from "./engine-node.ts";
import { again } from "./faults/again.ts";
import { keyOf, runClient } from "./people/clients.ts";
import { runEnder } from "./people/enders.ts";
import { runLockUser } from "./people/lock-users.ts";
import { runOperator } from "./people/operators.ts";
import { runWorker } from "./people/workers.ts";
import type { SplitKernel } from "./split-kernel.ts";
import { type Node, startNode, type World } from "./world.ts";

export type Gateway = { readonly node: Node; readonly engine: EngineNode | undefined };

type Whose = { readonly tenant: TenantId; readonly own: TenantId };

const floodFactor = 10;

export function startTenant(
  world: World,
  kernel: SplitKernel,
  gateways: readonly Gateway[],
  { tenant, own }: Whose,
): void {
  const isOwn = tenant === own;
  const peace = isOwn ? { begun: true, over: false } : world.peace;
  const view: World = Object.create(world, { tenants: { value: [tenant] }, peace: { value: peace } });
  const begin = (process: SimulatedProcess, name: string, work: () => Promise<void>) =>
    kernel.within(tenant, () => world.tasks.start(process, `${tenant} ${name}`, work));
  const { swarm } = world;
  if (swarm.workflows === undefined) {
    const operator = kernel.within(tenant, () => startNode(view, `operator of ${tenant}`));
    begin(operator.process, "settings", () => runOperator(view, operator));
  } else {
    const author = kernel.within(tenant, () =>
      startEngine(view, startNode(view, `author of ${tenant}`), new Set()),
    );
    begin(author.process, "workflows", () => saveForetold(view, author, tenant));
    begin(author.process, "approvals", () => approveAll(author, tenant));
  }
  for (const { node, engine } of gateways) {
    const many = (count: number, kind: string, work: (name: string) => Promise<void>) => {
      for (let number = 1; number <= Math.min(1, count) * (isOwn ? 1 : floodFactor); number += 1) {
        const name = `${kind}-${number} of ${tenant}`;
        begin(node.process, name, () => work(name));
      }
    };
    if (engine === undefined) {
      many(swarm.clientsPerGateway, "client", (name) => runClient(view, node, name));
      many(swarm.endersPerGateway, "ender", (name) => runEnder(view, node, name));
      many(swarm.lockUsersPerGateway, "lock-user", (name) => runLockUser(view, node, name));
    } else {
      many(1, "starter", (name) => startForetold(view, engine, { tenant, name }));
      many(1, "worker", (name) =>
        startWorker(view, kernel, { tenant, own, name: `${node.process.name}/${name}` }),
      );
    }
  }
}

async function saveForetold(world: World, author: EngineNode, tenant: TenantId): Promise<void> {
  const caller = { tenant, actor: "author" };
  for (const definition of world.predicted.draw(tenant, author.process.random.stream("workflows"))) {
    while ((await author.api.saveWorkflow({ caller, definition })).kind !== "saved") {
      await author.process.clock.sleep(50);
    }
  }
}

/** Everything is approved, so that how a run ends depends on nobody's moment. */
async function approveAll({ api, process }: EngineNode, tenant: TenantId): Promise<void> {
  for (;;) {
    const listed = await api.listApprovals({ tenant, limit: 100, state: "pending" });
    for (const { approvalId } of listed.kind === "listed" ? listed.approvals : []) {
      await api.decideApproval({ caller: { tenant, actor: "approver" }, approvalId, decision: "approved" });
    }
    await process.clock.sleep(100);
  }
}

type Starting = { readonly tenant: TenantId; readonly name: string };

/** Starts runs at moments that are drawn beforehand, with keys of its own, each of them twice. */
async function startForetold(world: World, node: EngineNode, { tenant, name }: Starting): Promise<void> {
  const { kernel, swarm } = world;
  const random = node.process.random.stream(name);
  let plannedMs = 0;
  for (let request = 1; ; request += 1) {
    plannedMs += random.integer(100, 2 * swarm.thinkMsMax);
    if (plannedMs >= swarm.chaosMs) return;
    await node.process.clock.sleep(Math.max(0, plannedMs - kernel.nowMs()));
    const actor = `${node.process.name}/${name}/${request}`;
    const key = keyOf(actor, "v1:usual" as Fingerprint);
    const list = [random.integer(0, 4), random.integer(0, 4)];
    const input = { what: "a", flag: random.chance(0.7), n: random.integer(0, 4), list };
    for (let times = 1; times <= 2; times += 1) {
      const caller = { tenant, actor };
      const answer = await node.api.startWorkflow({ caller, workflow: predictedId, input, key });
      kernel.note(actor, answer.kind, "runId" in answer ? answer.runId : "");
    }
  }
}

type Working = Whose & { readonly name: string };

/** In a process of its own; those of the tenant that floods stand still and crash, too. */
async function startWorker(world: World, kernel: SplitKernel, { tenant, own, name }: Working): Promise<void> {
  const { process } = startNode(world, name);
  world.keepGoing(process, () => runWorker(world, process));
  if (tenant === own) return;
  const random = process.random.stream("faults");
  again(world, random, 700, () => process.pause(random.integer(20, 2_000)));
  kernel.after(random.integer(500, 5_000), () => process.crash());
}
