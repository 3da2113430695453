// Owners that end runs without a workflow: several at once on the same runs, with different statuses and risk classes.
import type { RiskClass } from "../../../src/domain/lock.ts";
import { makeRunId, type RunId, terminalStatuses } from "../../../src/domain/run.ts";
import type { TenantId } from "../../../src/domain/tenant.ts";
import { bareStart } from "../bare-run.ts";
import type { EndAttempt } from "../checks/history.ts";
import { type EndAnswer, endBareRun } from "../end-bare-run.ts";
import type { Node, World } from "../world.ts";
import { abortedEarly } from "./clients.ts";

export const riskClasses: readonly RiskClass[] = ["high", "standard", "low"];

export async function runEnder(world: World, node: Node, name: string): Promise<void> {
  const { kernel, swarm } = world;
  const { clock } = node.process;
  const random = node.process.random.stream(name);
  let remembered: RunId | undefined;
  for (let request = 1; ; request += 1) {
    await clock.sleep(random.integer(1, swarm.thinkMsMax));
    if (kernel.nowMs() >= swarm.chaosMs || world.leaving.has(node.process.name)) return;
    const tenant = random.pick(world.tenants);
    const oldest = await listOldest(world, node, tenant);
    // It may have ended, or be another tenant's, for whom it is not there.
    const ended = remembered !== undefined && random.chance(0.05) ? [remembered] : [];
    const absent = random.chance(0.02) ? [makeRunId(tenant, random.token())] : [];
    const runId = [...absent, ...ended, ...(oldest.length === 0 ? [] : [random.pick(oldest)])][0];
    if (runId === undefined) continue;
    remembered = runId;
    const status = random.pick(terminalStatuses);
    const commitId = `${node.process.name}/${name}/${request}`;
    const signal = abortedEarly(world, node, random);
    await end(world, node, { commitId, tenant, runId, status }, random.pick(riskClasses), signal);
  }
}

/** Few, so that several choose the same; runs of workflows end by themselves. */
async function listOldest(world: World, node: Node, tenant: TenantId): Promise<readonly RunId[]> {
  const answer = await node.ports().store.listActive({ tenant, limit: 10 }, { deadlineMs: 200 });
  if (answer.kind !== "listed") return [];
  return answer.runIds.filter((runId) => isBare(world, runId)).slice(0, 2);
}

export function isBare({ known }: World, runId: RunId): boolean {
  return known.run(runId)?.workflow === bareStart.workflow;
}

export async function end(
  world: World,
  node: Node,
  asked: EndAttempt,
  risk: RiskClass,
  signal?: AbortSignal,
): Promise<EndAnswer> {
  const answered = world.failClosed.begin(node.process, `end of ${asked.runId}`);
  const answer = await endBareRun(node.ports(), node.config, { ...asked, risk }, signal);
  answered(answer);
  world.kernel.note(asked.commitId, asked.runId, answer.kind);
  world.history.endAnswered(asked, answer);
  return answer;
}
