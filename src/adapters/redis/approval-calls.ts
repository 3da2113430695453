// The operations that read approvals as script calls; deciding one is a delivery.
import type { ApprovalId } from "../../domain/approval.ts";
import { parseApproval } from "./approval-format.ts";
import { startBefore } from "./listing-calls.ts";
import { type ScriptCall, unexpected } from "./script-call.ts";

export const getApproval: ScriptCall<"getApproval"> = {
  keys: (keys, { approvalId }) => [keys.approval(approvalId)],
  args: () => [],
  parse(reply, { approvalId }) {
    switch (reply[0]) {
      case "approval":
        return { kind: "approval", approval: parseApproval(approvalId, reply[2] as readonly string[]) };
      case "not_found":
        return { kind: "not_found" };
      default:
        return unexpected("getApproval", reply);
    }
  },
};

export const listApprovals: ScriptCall<"listApprovals"> = {
  keys: (keys) => [keys.approvals, keys.approvalPrefix],
  args: ({ before, limit, state }) => [startBefore(before), String(limit), state ?? ""],
  parse(reply) {
    if (reply[0] !== "listed") return unexpected("listApprovals", reply);
    const rows = reply[3] as ReadonlyArray<readonly [ApprovalId, readonly string[]]>;
    const approvals = rows.map(([id, fields]) => parseApproval(id, fields));
    return reply[2] === ""
      ? { kind: "listed", approvals }
      : { kind: "listed", approvals, next: String(reply[2]) };
  },
};
