// Small scenarios about runs of workflows: results, decisions and cancellations that meet.

import type { ClaimedJob } from "../../src/control/jobs/offers.ts";
import { sweepPartition } from "../../src/control/sweeper.ts";
import type { Decision } from "../../src/domain/approval.ts";
import type { JsonValue } from "../../src/domain/fingerprint.ts";
import type { RunId } from "../../src/domain/run.ts";
import { partitionOf } from "../../src/domain/tenant.ts";
import type { EngineNode } from "../simulation/engine-node.ts";
import { mustHold } from "../simulation/invariants/violation.ts";
import type { Ask, Scenario, Stage } from "./stage.ts";

const twoSteps = { one: work(), two: work() };

export const workScenarios: Readonly<Record<string, Scenario>> = {
  results_handoff: {
    about: "two results for the same run, handed over to its owner",
    workflows: true,
    config: { "results.strategy": "handoff" },
    ...reporting(twoSteps, "both"),
  },
  results_retry: {
    about: "two results for the same run, each under the run's lock",
    workflows: true,
    config: { "results.strategy": "retry" },
    ...reporting(twoSteps, "both"),
  },
  same_attempt: {
    about: "two results of the same attempt of one job",
    workflows: true,
    config: { "results.strategy": "handoff" },
    ...reporting({ one: work() }, "the first twice"),
  },
  same_attempt_retry: {
    about: "two results of the same attempt of one job, each under the run's lock",
    workflows: true,
    config: { "results.strategy": "retry" },
    ...reporting({ one: work() }, "the first twice"),
  },
  cancel_against_result: {
    about: "a cancellation against a result",
    workflows: true,
    prepare: async (stage) => {
      const runId = await startWorkflow(stage, { one: work() });
      const [claimed] = await claimJobs(stage, 1);
      return [reportOf(stage, 0, claimed, "r1"), cancelOf(stage, 1, runId)];
    },
    repeat: async (stage) => {
      await reportAgain(stage, ["r1"]);
      const [run] = [...stage.world.known.runs()];
      if (run !== undefined) await cancel(stage, stage.probe, run.runId);
    },
  },
  approve_against_reject: {
    about: "an approval against a rejection, a sweep, and the expiry of the approval",
    workflows: true,
    config: { "approvals.strategy": "atomic" },
    ...deciding(6),
  },
  decisions_at_expiry: {
    about: "the same, with decisions that arrive when the approval expires",
    workflows: true,
    config: { "approvals.strategy": "atomic" },
    ...deciding(3),
  },
  approve_against_reject_locked: {
    about: "the same under the approval's lock",
    workflows: true,
    config: { "approvals.strategy": "lock" },
    ...deciding(6),
  },
};

function work(): JsonValue {
  return { type: "worker", topic: "left" };
}

const definition = (steps: JsonValue): JsonValue => ({ id: "small", name: "small", risk: "standard", steps });

async function startWorkflow({ probe, tenant }: Stage, steps: JsonValue): Promise<RunId> {
  const caller = { tenant, actor: "author" };
  const saved = await probe.api.saveWorkflow({ caller, definition: definition(steps) });
  if (saved.kind !== "saved") throw new Error(JSON.stringify(saved));
  const started = await probe.api.startWorkflow({ caller, workflow: "small", input: {} });
  if (started.kind !== "admitted") throw new Error(JSON.stringify(started));
  return started.runId;
}

/** What was claimed in this schedule, by the names of the reports: the repeat asks with the same. */
const claims = new WeakMap<Stage, Map<string, ClaimedJob>>();

export async function claimJobs(stage: Stage, amount: number): Promise<readonly ClaimedJob[]> {
  const { probe, tenant } = stage;
  const poll = { worker: "w", topics: ["left"], pollId: "poll", places: amount, waitMs: 0 };
  const answer = await probe.api.pollJobs({ caller: { tenant, actor: "w" }, ...poll });
  if (answer.kind !== "jobs" || answer.jobs.length !== amount) throw new Error(JSON.stringify(answer));
  return answer.jobs;
}

function reporting(
  steps: JsonValue,
  which: "both" | "the first twice",
): Pick<Scenario, "prepare" | "repeat"> {
  return {
    prepare: async (stage) => {
      await startWorkflow(stage, steps);
      const jobs = await claimJobs(stage, which === "both" ? 2 : 1);
      const [first, second = first] = jobs;
      return [reportOf(stage, 0, first, "r1"), reportOf(stage, 1, second, "r2")];
    },
    repeat: (stage) => reportAgain(stage, ["r1", "r2"]),
  };
}

export function reportOf(stage: Stage, gateway: 0 | 1, claimed: ClaimedJob | undefined, nonce: string): Ask {
  if (claimed === undefined) throw new Error("nothing was claimed");
  claims.set(stage, (claims.get(stage) ?? new Map<string, ClaimedJob>()).set(nonce, claimed));
  return {
    name: `report ${nonce}`,
    gateway,
    ask: async (node) => {
      for (let tries = 1; tries <= 3; tries += 1) {
        const answer = await report(stage, node, nonce);
        if (answer.kind !== "run_busy") return;
        await node.process.clock.sleep(answer.retryAfterMs);
      }
    },
  };
}

async function report(stage: Stage, node: EngineNode, nonce: string) {
  const { world, tenant } = stage;
  const claimed = claims.get(stage)?.get(nonce);
  if (claimed === undefined) throw new Error(`nothing was claimed for ${nonce}`);
  const { jobId } = claimed.job;
  const caller = { tenant, actor: "w" };
  const output = { nonce };
  const answer = await node.api.reportResult({
    caller,
    jobId,
    token: claimed.token,
    outcome: "succeeded",
    output,
  });
  world.kernel.note(node.process.name, "report", nonce, answer.kind);
  world.actions.reportAnswered({ tenant, jobId, nonce }, answer);
  return answer;
}

export async function reportAgain(stage: Stage, nonces: readonly string[]): Promise<void> {
  const { clock } = stage.probe.process;
  for (const nonce of nonces) {
    for (let tries = 1; ; tries += 1) {
      const answer = await report(stage, stage.probe, nonce);
      if (!["run_busy", "unknown", "unavailable"].includes(answer.kind)) break;
      const mayWait = answer.kind === "run_busy" && tries <= 40;
      mustHold(mayWait, "INV-22", () => `report ${nonce}, made again: ${JSON.stringify(answer)}`);
      await clock.sleep(100);
    }
  }
}

function cancelOf(stage: Stage, gateway: 0 | 1, runId: RunId): Ask {
  return { name: "cancel", gateway, ask: async (node) => void (await cancel(stage, node, runId)) };
}

async function cancel({ world, tenant, probe }: Stage, node: EngineNode, runId: RunId): Promise<void> {
  const answer = await node.api.cancelRun({
    caller: { tenant, actor: "canceller" },
    runId,
    reason: "no longer wanted",
  });
  world.kernel.note(node.process.name, "cancel", answer.kind);
  world.actions.cancelAnswered(tenant, runId, answer);
  const definite = answer.kind === "cancelling" || answer.kind === "run_ended";
  mustHold(node !== probe || definite, "INV-18", () => `the cancel, made again: ${answer.kind}`);
}

/** The decisions are sent a moment before the approval expires: 3 ms are just too few, 6 not enough for all that follows. */
function deciding(momentMs: number): Pick<Scenario, "prepare" | "repeat"> {
  return {
    prepare: async (stage) => {
      const { probe, tenant } = stage;
      await startWorkflow(stage, { one: { type: "approval", input: {}, timeout_sec: 2 } });
      const approval = await pendingApproval(stage);
      const leftMs = (approval.expiresAtMs ?? 0) - stage.world.server.timeMs();
      await probe.process.clock.sleep(leftMs - momentMs);
      const sweep: Ask = {
        name: "sweep",
        gateway: 0,
        ask: async ({ process, engine }) => {
          await process.clock.sleep(momentMs);
          await sweepPartition(engine, partitionOf(tenant));
        },
      };
      const ruled = (gateway: 0 | 1, decision: Decision): Ask => ({
        name: decision,
        gateway,
        ask: async (node) => void (await decide(stage, node, decision, approval.hash)),
      });
      return [ruled(0, "approved"), ruled(1, "rejected"), sweep];
    },
    repeat: async (stage) => {
      for (const decision of ["approved", "rejected"] as const) await decideAgain(stage, decision);
    },
  };
}

async function pendingApproval({ probe, tenant }: Stage) {
  const listed = await probe.api.listApprovals({ tenant, limit: 1 });
  const [approval] = listed.kind === "listed" ? listed.approvals : [];
  if (approval === undefined) throw new Error(`no approval: ${listed.kind}`);
  return approval;
}

async function decide(
  stage: Stage,
  node: EngineNode,
  decision: Decision,
  hash: string,
  by = `by ${node.process.name}`,
) {
  const { world, tenant } = stage;
  const { approvalId } = await knownApproval(stage);
  const answer = await node.api.decideApproval({ caller: { tenant, actor: by }, approvalId, decision, hash });
  world.kernel.note(by, decision, answer.kind);
  world.actions.rulingAnswered({ tenant, approvalId, decision, by, own: false }, answer);
  return answer;
}

/** Looked up in the records, so that asking costs no call. */
async function knownApproval({ world, tenant }: Stage) {
  const [found] = world.records.scan("approval", tenant, "", 1);
  if (found === undefined) throw new Error("there is no approval");
  return found.value;
}

async function decideAgain(stage: Stage, decision: Decision): Promise<void> {
  const { hash } = await knownApproval(stage);
  for (let tries = 1; ; tries += 1) {
    const answer = await decide(stage, stage.probe, decision, hash, `again ${decision} ${tries}`);
    const isTrouble = answer.kind === "unknown" || answer.kind === "unavailable";
    if (!isTrouble && answer.kind !== "approval_lock_busy") return;
    const mayWait = answer.kind === "approval_lock_busy" && tries <= 10;
    mustHold(mayWait, "INV-25", () => `${decision}, decided again: ${answer.kind}`);
    await stage.probe.process.clock.sleep(300);
  }
}
