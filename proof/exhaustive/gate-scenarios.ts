// Small scenarios about gates: two starts that wait for the place of a run that ends.
import type { Fingerprint } from "../../src/domain/fingerprint.ts";
import type { StartAttempt } from "../simulation/checks/history.ts";
import type { EngineNode } from "../simulation/engine-node.ts";
import { mustHold } from "../simulation/invariants/violation.ts";
import { keyOf } from "../simulation/people/clients.ts";
import type { Ask, Scenario, Stage } from "./stage.ts";
import { claimJobs, reportAgain, reportOf } from "./work-scenarios.ts";

export const gateScenarios: Readonly<Record<string, Scenario>> = {
  queued_starts_and_end: {
    about: "two starts that wait at a gate against the result that ends the run in its one place",
    workflows: true,
    prepare: async (stage) => {
      await putUp(stage);
      // It begins by its inbox, as every run does that may wait.
      await stage.probe.process.clock.sleep(100);
      const [claimed] = await claimJobs(stage, 1);
      return [startOf(stage, 0, "a"), startOf(stage, 1, "b"), reportOf(stage, 0, claimed, "r1")];
    },
    repeat: async (stage) => {
      await reportAgain(stage, ["r1"]);
      for (const key of ["a", "b"]) await startAgain(stage, key);
    },
  },
};

/** One place of the workflow's own, and two of the tenant's. */
async function putUp({ probe, tenant }: Stage): Promise<void> {
  const settings = { maxConcurrentRuns: 2, atLimit: "queue" } as const;
  const created = await probe.api.createTenant({ actor: "operator", tenant, settings });
  if (created.kind !== "created") throw new Error(created.kind);
  const caller = { tenant, actor: "author" };
  const definition = {
    id: "small",
    name: "small",
    concurrency: [{ max: 1, at_limit: "queue" }],
    steps: { one: { type: "worker", topic: "left" } },
  };
  const saved = await probe.api.saveWorkflow({ caller, definition });
  if (saved.kind !== "saved") throw new Error(JSON.stringify(saved));
  const started = await probe.api.startWorkflow({ caller, workflow: "small", input: {} });
  if (started.kind !== "admitted") throw new Error(JSON.stringify(started));
}

function startOf(stage: Stage, gateway: 0 | 1, key: string): Ask {
  const ask = async (node: EngineNode) => {
    await start(stage, node, key, `caller ${key}`);
  };
  return { name: `start ${key}`, gateway, ask };
}

async function start({ world, tenant }: Stage, node: EngineNode, text: string, actor: string) {
  const key = keyOf(text, "v1:usual" as Fingerprint);
  const asked: StartAttempt = { actor, tenant, key };
  world.history.startAsked(asked);
  const answer = await node.api.startWorkflow({
    caller: { tenant, actor },
    workflow: "small",
    input: {},
    key,
  });
  world.kernel.note(actor, answer.kind);
  if (
    answer.kind === "workflow_not_found" ||
    answer.kind === "input_invalid" ||
    answer.kind === "start_expression_failed"
  )
    throw new Error(answer.kind);
  world.history.startAnswered(asked, answer);
  return answer;
}

/** Whether it waits or has begun, the key stands for its run, or makes one now. */
async function startAgain(stage: Stage, key: string): Promise<void> {
  const answer = await start(stage, stage.probe, key, `again ${key}`);
  const isDefinite = answer.kind === "admitted" || answer.kind === "queued" || answer.kind === "replayed";
  mustHold(isDefinite, "INV-7", () => `key ${key}, asked for again: ${answer.kind}`);
}
