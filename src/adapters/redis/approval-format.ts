// An approval as it lies in Redis: one hash, names and values of which come back in turn.
import type { Approval, ApprovalId, ApprovalRequest, ApprovalState, Decider } from "../../domain/approval.ts";
import type { RunId } from "../../domain/run.ts";
import { plain } from "./keys.ts";
import { wholeMs } from "./script-call.ts";

/** What a script writes for a new approval: its id, then names and values to the end. */
export function approvalArgs(request: ApprovalRequest): string[] {
  const { approvalId, step, hash, payloadKey, requester, separateDuties, expiresAtMs } = request;
  return [
    plain("approval id", approvalId),
    step,
    hash,
    payloadKey,
    requester,
    String(separateDuties),
    expiresAtMs === undefined ? "" : wholeMs("expiresAtMs", expiresAtMs),
  ];
}

/** As HGETALL gives it. */
export function parseApproval(approvalId: ApprovalId, flat: readonly string[]): Approval {
  const fields = new Map<string, string>();
  for (let index = 0; index < flat.length; index += 2) fields.set(flat[index] ?? "", flat[index + 1] ?? "");
  const text = (name: string) => fields.get(name) ?? "";
  const optional = <Name extends string, Value>(
    name: Name,
    field: string,
    read: (value: string) => Value,
  ) => {
    const value = fields.get(field);
    return (value === undefined ? {} : { [name]: read(value) }) as { readonly [Key in Name]?: Value };
  };
  const asIs = (value: string) => value;
  return {
    approvalId,
    step: text("step"),
    hash: text("hash"),
    payloadKey: text("payloadKey"),
    requester: text("requester"),
    separateDuties: text("separateDuties") === "true",
    ...optional("expiresAtMs", "expiresAt", Number),
    runId: text("run") as RunId,
    state: text("state") as ApprovalState,
    requestedAtMs: Number(text("requestedAt")),
    ...optional("decidedAtMs", "decidedAt", Number),
    ...optional("decidedBy", "decidedBy", asIs),
    ...optional("decider", "decider", (value) => JSON.parse(value) as Decider),
    ...optional("decisionId", "decisionId", asIs),
    ...optional("reason", "reason", asIs),
  };
}
