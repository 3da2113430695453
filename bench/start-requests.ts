// The start requests that benchmarks send: each with a key of its own, and an input as a small real workflow has it.
import type { StartRequest } from "../src/control/admission/start-run.ts";
import { fingerprintOf, type JsonValue } from "../src/domain/fingerprint.ts";
import { unchanged } from "../src/domain/run.ts";
import type { TenantId } from "../src/domain/tenant.ts";

const workflow = "weekly-report";

const input: JsonValue = {
  report: "sales",
  week: "2026-W46",
  region: "europe-west",
  customer: "customer-004711",
  recipients: ["anna@example.com", "ben@example.com", "carla@example.com"],
  format: "pdf",
};

/** The gateway makes the fingerprint while it reads the body, before the flow that is measured; so it is made once here. */
const fingerprint = fingerprintOf({
  method: "POST",
  path: `/api/v1/workflows/${workflow}/runs`,
  query: {},
  body: input,
});

/** The parts of a start that are the same for all. */
export const commonStart = {
  workflow,
  actor: "key_7f3a9c2e",
  definition: "bench",
  change: {
    ...unchanged,
    status: "pending",
    records: [{ key: "input", body: JSON.stringify(input) }],
    timeline: "[]",
  },
  start: "applied",
  fingerprint,
} as const;

let keysMade = 0;

export function startRequest(tenant: TenantId): StartRequest {
  keysMade += 1;
  const { fingerprint: _fingerprint, ...run } = commonStart;
  const text = `order-${String(keysMade).padStart(12, "0")}`;
  return { tenant, ...run, key: { text, fingerprint } };
}

let tenantsMade = 0;

/** Tenants that nobody has used, so that a slice finds nothing of the slices before it. */
export function freshTenants(count: number): readonly TenantId[] {
  return Array.from({ length: count }, () => {
    tenantsMade += 1;
    return `tenant-${String(tenantsMade).padStart(8, "0")}` as TenantId;
  });
}
