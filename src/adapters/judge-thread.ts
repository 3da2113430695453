// The thread that judges definitions, one after the other: whatever one takes, no other request waits for it.
import { parentPort } from "node:worker_threads";
import type { TenantId } from "../domain/tenant.ts";
import {
  judgeDefinition,
  newWorkflowId,
  type SentDefinition,
  type Verdict,
} from "../domain/workflow/judge.ts";
import { systemRandom } from "./system/system.ts";

export type ToJudge = { readonly tenant: TenantId; readonly sent: SentDefinition };
export type FromJudge = { readonly kind: "ready" } | { readonly kind: "verdict"; readonly verdict: Verdict };

if (parentPort !== null) {
  const port = parentPort;
  const send = (message: FromJudge) => port.postMessage(message);
  port.on("message", ({ tenant, sent }: ToJudge) => {
    const verdict = judgeDefinition(sent, { tenant, newId: () => newWorkflowId(systemRandom.token()) });
    send({ kind: "verdict", verdict });
  });
  send({ kind: "ready" });
}
