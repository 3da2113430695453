// The control plane inside a Node program: no server, no HTTP, one process. A workflow, a worker, and a start that is sent twice.
//
//   npx tsx examples/08-embedded.ts
import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { createControlPlane, fingerprintOf, type JsonValue, parseTenantId } from "interlock";

const plane = await createControlPlane({ overrides: { "store.kind": "memory" } });
const tenant = parseTenantId("acme");
if (tenant === undefined) throw new Error("not a tenant id");
const caller = { tenant, actor: "billing-service" };

const file = new URL("workflows/report.json", import.meta.url);
const saved = await plane.api.saveWorkflow({
  caller,
  definition: JSON.parse(readFileSync(file, "utf8")) as JsonValue,
});
console.log("workflow", saved.kind);

plane.startWorker({
  tenant,
  name: "example",
  topics: ["demo.research", "demo.write", "demo.publish"],
  concurrency: 4,
  handler: ({ step, attempt, input }) => {
    console.log(`${step} (attempt ${attempt})`, JSON.stringify(input));
    return { facts: ["a fact"], text: "a text" };
  },
});

const input = { subject: "leases" };
const path = "/api/v1/workflows/demo-report/runs";
const key = {
  text: "order-42",
  fingerprint: fingerprintOf({ method: "POST", path, query: {}, body: input }),
};
const first = await plane.api.startWorkflow({ caller, workflow: "demo-report", input, key });
const again = await plane.api.startWorkflow({ caller, workflow: "demo-report", input, key });
if (first.kind !== "admitted" || again.kind !== "replayed") throw new Error("not started");

for (;;) {
  const found = await plane.api.getRun({ tenant, runId: first.runId });
  if (found.kind === "run" && found.run.header.status === "succeeded") break;
  await sleep(5);
}
console.log("one run for both starts:", first.runId === again.runId);
await plane.close();
