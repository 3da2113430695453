// Ends a run under its run lock: the write carries the fence, so that only the current owner can make it.
import { createControlPlane, parseTenantId, runLockTerms, withLease } from "../src/index.ts";

const plane = await createControlPlane({ overrides: { "store.kind": "memory" } });
const tenant = parseTenantId("acme");
if (tenant === undefined) throw new Error("not a tenant id");

const started = await plane.startRun({ tenant, workflow: "ship-order", actor: "example", records: [] });
if (started.kind !== "admitted") throw new Error(`not admitted: ${started.kind}`);
const { runId } = started;

const terms = runLockTerms(plane.config, "standard", "wait");
const target = { tenant, lock: { namespace: "run", name: runId } } as const;
const outcome = await withLease(plane.ports, target, terms, async (lease) => {
  lease.check();
  const answer = await lease.write("endRun", { tenant, runId, status: "succeeded", actor: "example" });
  return answer.kind;
});
console.log(outcome.kind, outcome.kind === "finished" ? outcome.value : "");
await plane.close();
