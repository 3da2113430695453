// People who rerun what has ended, from any of its steps; the new run passes the gate like any other.
import { isTerminal } from "../../../src/domain/run.ts";
import type { SeededRandom } from "../../../src/testing/seeded-random.ts";
import type { StartAttempt } from "../checks/history.ts";
import type { EngineNode } from "../engine-node.ts";
import type { World } from "../world.ts";
import { abortedEarly, drawKey } from "./clients.ts";
import { credentials } from "./operators.ts";

export async function rerunSomething(
  world: World,
  node: EngineNode,
  random: SeededRandom,
  who: string,
): Promise<void> {
  const { kernel, history, swarm } = world;
  const tenant = random.pick(world.tenants);
  const listed = await node.api.listRuns({ tenant, limit: 10 });
  if (listed.kind !== "listed") return;
  const runs = listed.runs.filter(({ runId, status }) => isTerminal(status) && world.isOfWorkflow(runId));
  if (runs.length === 0) return;
  const { runId } = random.pick(runs);
  const found = await node.api.getRun({ tenant, runId });
  if (found.kind !== "run" || found.run.definition === undefined) return;
  const fromStep = random.pick([...found.run.definition.steps.keys()]);
  const key = random.chance(swarm.keylessRate) ? undefined : drawKey(world, random);
  const asked: StartAttempt = key === undefined ? { actor: who, tenant } : { actor: who, tenant, key };
  history.startAsked(asked);
  const caller = { tenant, actor: who, credential: random.pick(credentials) };
  const request = { caller, runId, fromStep, ...(key === undefined ? {} : { key }) };
  const answer = await node.api.rerunRun(request, abortedEarly(world, node, random));
  kernel.note(who, "rerun", runId, fromStep, answer.kind);
  switch (answer.kind) {
    case "run_not_found":
    case "rerun_not_possible":
    case "workflow_not_found":
    case "input_invalid":
    case "start_expression_failed":
    case "store_unavailable":
      history.refused(who, answer.kind);
      return;
    case "admitted":
    case "queued":
      world.marks.hit("run_rerun");
      history.startAnswered(asked, answer);
      return;
    case "replayed":
    case "outcome_unknown":
    case "idempotency_key_reused":
    case "idempotency_key_in_flight":
    case "max_concurrent_runs_reached":
    case "queue_full":
    case "start_rate_exceeded":
    case "budget_exhausted":
    case "tenant_stopped":
    case "concurrency_gate_unavailable":
    case "request_cancelled":
    case "quota_reached":
    case "idempotency_quota_reached":
    case "unauthenticated":
    case "version_conflict":
      history.startAnswered(asked, answer);
      return;
  }
}
