// What may be asked about audit trails.
import type { Head } from "../../domain/audit.ts";
import type { TenantId } from "../../domain/tenant.ts";
import type { Trouble } from "../control-api.ts";
import type { Engine } from "../engine/engine.ts";
import { readTrail, type TrailPage, type TrailRecords } from "./read-trail.ts";
import { recordRefusals } from "./record-refusals.ts";
import { type TrailVerdict, verifyTrail } from "./verify-trail.ts";

export type AuditApi = {
  readTrail(tenant: TenantId, page: TrailPage): Promise<TrailRecords | Trouble>;
  /** Seals what is new first, then compares all that is kept. `expect` is a head that was noted before. */
  verifyTrail(tenant: TenantId, expect?: Head): Promise<TrailVerdict | Trouble>;
  /** One record; the same text again is the same record. */
  recordRefusals(tenant: TenantId, text: string): Promise<{ readonly kind: "recorded" } | Trouble>;
};

export function createAuditApi(engine: Engine): AuditApi {
  return {
    readTrail: (tenant, page) => readTrail(engine, tenant, page),
    verifyTrail: (tenant, expect) => verifyTrail(engine, tenant, expect),
    recordRefusals: (tenant, text) => recordRefusals(engine, tenant, text),
  };
}
