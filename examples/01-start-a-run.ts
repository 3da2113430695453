// Starts a run twice with one idempotency key: the second start finds the first run. In your program import from "interlock".
import { createControlPlane, fingerprintOf, parseTenantId, startHttpStatus } from "../src/index.ts";

const plane = await createControlPlane({ overrides: { "store.kind": "memory" } });
const tenant = parseTenantId("acme");
if (tenant === undefined) throw new Error("not a tenant id");

const body = { order: 42 };
const request = {
  tenant,
  workflow: "ship-order",
  actor: "billing-service",
  key: { text: "order-42", fingerprint: fingerprintOf({ method: "POST", path: "/orders", query: {}, body }) },
  records: [{ key: "input/run", body: JSON.stringify(body) }],
};

for (const attempt of ["first", "again"]) {
  const answer = await plane.startRun(request);
  console.log(attempt, startHttpStatus(answer), answer.kind);
}
await plane.close();
