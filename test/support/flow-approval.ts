// A run that waits for a person's approval, and the words to decide it, for tests of approvals.

import type { DecideAnswer, DecideRequest } from "../../src/control/approvals/decide-approval.ts";
import type { Caller } from "../../src/control/caller.ts";
import type { Approval, Decision } from "../../src/domain/approval.ts";
import type { RunId } from "../../src/domain/run.ts";
import {
  acme,
  ann,
  ben,
  type FlowPlane,
  FlowWorld,
  type Overrides,
  only,
  type Steps,
  work,
} from "./flow-world.ts";

export type Waiting = {
  readonly flow: FlowWorld;
  readonly plane: FlowPlane;
  readonly runId: RunId;
  readonly approvalId: string;
};

/** A run of ann's that waits for an approval before its only job. */
export async function waiting(
  options: {
    readonly overrides?: Overrides;
    readonly ok?: Steps[string];
    readonly engine?: "stopped";
    readonly caller?: Caller;
  } = {},
): Promise<Waiting> {
  const { overrides = {}, ok = {}, engine = "running", caller = ann } = options;
  const flow = new FlowWorld();
  const plane = await flow.open("p", { overrides, engine });
  const steps = {
    ok: { type: "approval", input: { amount: "${input.amount}" }, ...ok },
    pay: work({ depends_on: ["ok"] }),
  };
  await plane.save("pay", steps);
  const runId = await plane.start("pay", { amount: 5 }, caller);
  return { flow, plane, runId, approvalId: `${runId}:ok@1` };
}

export function requestOf(
  { approvalId }: Waiting,
  decision: Decision,
  more: Partial<DecideRequest> = {},
): DecideRequest {
  return { caller: ben, approvalId, decision, ...more };
}

export function decide(
  scene: Waiting,
  decision: Decision,
  more: Partial<DecideRequest> = {},
): Promise<DecideAnswer> {
  return scene.flow.finish(scene.plane.api.decideApproval(requestOf(scene, decision, more)));
}

export async function approval({ flow, approvalId }: Waiting): Promise<Approval> {
  const request = { tenant: acme, approvalId: approvalId as Approval["approvalId"] };
  return only(await flow.world.store.getApproval(request, { deadlineMs: 100 }), "approval").approval;
}
