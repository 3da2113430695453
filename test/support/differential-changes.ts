// The changes of the differential test: what a commit, a proposal or an admission holds, by the choices of its command.
import type { ApprovalId, ApprovalRequest } from "../../src/domain/approval.ts";
import { type ClaimToken, type JobSpec, makeJobId } from "../../src/domain/job.ts";
import { type ChildRun, type RunChange, type RunId, unchanged } from "../../src/domain/run.ts";
import type { TenantId } from "../../src/domain/tenant.ts";
import { type CallCommand, ttls } from "./differential-commands.ts";
import type { Knowledge } from "./differential-knowledge.ts";

const farMs = 9_000_000_000_000;

/** A command, and what its player knows when it comes up. */
export type Scene = {
  readonly command: CallCommand;
  readonly known: Knowledge;
  readonly tenant: TenantId;
  readonly runId: RunId;
  /** The number of the step: what must be unique has it in its name. */
  readonly step: number;
};

export function changeOf(scene: Scene, version: number): RunChange {
  const { command, known, runId, step } = scene;
  const { change } = command;
  const facts = known.run(runId);
  const timer = (bit: number) => (change.timers & bit) !== 0;
  const dueAtMs = change.timersDue ? 1 : farMs;
  const closed = facts.approvals[0];
  return {
    ...unchanged,
    status: change.status,
    ...(change.status === "waiting" ? { idle: true as const } : {}),
    timeline: `[${step}, {}]`,
    records: [{ key: `step/${command.pick % 2}`, body: `{"at": ${step}}` }],
    jobs: Array.from({ length: change.jobs }, (_, index) => jobSpec(scene, index, version)),
    voidJobs: change.voidsJob ? facts.jobs.slice(0, 2) : [],
    releaseJobs: change.releasesJobs ? facts.jobs.slice(-3).map((jobId) => ({ jobId, topic: "any" })) : [],
    timers: [...(timer(1) ? ["t0"] : []), ...(timer(2) ? ["deadline"] : [])].map((timerId) => ({
      timerId,
      dueAtMs,
    })),
    clearTimers: timer(4) ? ["t0"] : [],
    approvals: approvalsOf(scene, version),
    closeApprovals:
      change.closesApproval && closed !== undefined ? [{ approvalId: closed, state: "cancelled" }] : [],
    deadLetters:
      change.letter || change.status === "failed"
        ? [{ id: letterId(scene), reason: "claims_lost", body: `${step}` }]
        : [],
    children: Array.from({ length: change.children }, (_, index) => childRun(scene, index)),
    cancelChildren: change.cancelsChildren ? facts.children : [],
  };
}

/** Few names, so that some of them exist already. */
function childRun({ command, runId, step }: Scene, index: number): ChildRun {
  return {
    runId: `${runId}k${(index + command.pick) % 3}` as RunId,
    ...{ workflow: `w${index}`, definition: "d", step: `s "${index}" 0`, attempt: step },
    records: [{ key: "step/0", body: `{"at": ${step}}` }],
  };
}

export function letterId({ command }: Scene): string {
  return `letter ${command.pick % 2}`;
}

function jobSpec({ command, runId, step }: Scene, index: number, version: number): JobSpec {
  const name = `s${index}`;
  const jobId = makeJobId({ runId, step: name, attempt: version });
  const claim = {
    token: `born${step}-${index}` as ClaimToken,
    worker: 'worker ["2"]',
    leaseMs: ttls[command.ttl],
    ...(command.pool === undefined ? {} : { pool: command.pool }),
  };
  return {
    ...{ jobId, step: name, attempt: version, topic: `topic ${index}`, inputKey: `step/${index}` },
    ...(command.proposes ? { requires: '{"labels": {}}' } : { deadlineAtMs: farMs }),
    ...(index === 0 ? { traceparent: `00-${"7".repeat(32)}-${"8".repeat(16)}-00` } : {}),
    ...(command.change.bornClaimed ? { claim } : {}),
    ...(command.change.held ? { held: true as const } : {}),
  };
}

function approvalsOf({ command, runId }: Scene, version: number): readonly ApprovalRequest[] {
  const { approval } = command.change;
  if (approval === "none") return [];
  return [
    {
      approvalId: `${runId}:a@${version}` as ApprovalId,
      ...{
        step: "a",
        hash: "h",
        payloadKey: "step/1",
        requester: "a b",
        separateDuties: approval === "separate",
      },
      ...(approval === "expired" ? { expiresAtMs: 1 } : {}),
      ...(approval === "separate" ? { expiresAtMs: farMs } : {}),
    },
  ];
}
