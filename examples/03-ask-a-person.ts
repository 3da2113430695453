// A run that waits for a person: what is shown is hashed, and the decision names the hash.
import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { createControlPlane, type JsonValue, parseTenantId } from "../src/index.ts";

const plane = await createControlPlane({ overrides: { "store.kind": "memory" } });
const tenant = parseTenantId("acme");
if (tenant === undefined) throw new Error("not a tenant id");

const file = new URL("workflows/refund.json", import.meta.url);
await plane.api.saveWorkflow({ tenant, actor: "ops" }, JSON.parse(readFileSync(file, "utf8")) as JsonValue);
plane.startWorker({
  tenant,
  name: "bank",
  topics: ["demo.pay"],
  concurrency: 1,
  handler: ({ input }) => ({ paid: (input as { readonly amount: number }).amount }),
});

for (const amount of [20, 250]) {
  const caller = { tenant, actor: "shop" };
  const started = await plane.api.startWorkflow({
    caller,
    workflow: "demo-refund",
    input: { order: "A-1", amount },
  });
  if (started.kind !== "admitted") throw new Error(started.kind);
  for (;;) {
    const found = await plane.api.getRun(tenant, started.runId);
    const status = found.kind === "run" ? found.run.header.status : found.kind;
    if (status === "succeeded") break;
    if (status === "waiting") await approve();
    await sleep(5);
  }
  console.log(amount, "refunded");
}
await plane.close();

async function approve(): Promise<void> {
  if (tenant === undefined) return;
  const pending = await plane.api.listApprovals(tenant, { limit: 1, state: "pending" });
  const [approval] = pending.kind === "listed" ? pending.approvals : [];
  if (approval === undefined) return;
  const context = await plane.api.approvalContext(tenant, approval.approvalId);
  console.log("asked:", context.kind === "context" ? JSON.parse(context.shown).payload : context.kind);
  const decided = await plane.api.decideApproval({
    caller: { tenant, actor: "alice" },
    approvalId: approval.approvalId,
    decision: "approved",
    hash: approval.hash,
  });
  console.log(decided.kind);
}
