// Work that only one process may do at a time: it holds a lease, and stops before the lease can be somebody else's.
import { createControlPlane, jobLockTerms, parseTenantId, withLease } from "../src/index.ts";

const plane = await createControlPlane({ overrides: { "store.kind": "memory" } });
const tenant = parseTenantId("acme");
if (tenant === undefined) throw new Error("not a tenant id");

const terms = jobLockTerms(plane.config);
const target = { tenant, lock: { namespace: "job", name: "nightly-report" } } as const;

const outcome = await withLease(plane.ports, target, terms, async (lease) => {
  // Somebody else who wants the lease meanwhile waits for it, and then learns that it is busy.
  const other = await withLease(plane.ports, target, { ...terms, waitMs: 50 }, () => Promise.resolve());
  console.log("the other one:", other.kind);
  lease.check(); // throws when the lease is over, also right after a pause
  // Hand lease.signal to what takes long, and lease.fence to what you write to: a later holder has a larger one.
  return Number(lease.fence) > 0;
});
console.log("the work:", outcome.kind);
await plane.close();
