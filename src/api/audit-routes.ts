// The rows of the routes table about the audit trail: its records with their hashes, and whether they are as they were sealed.
import type { KeyRole } from "../domain/api-key.ts";
import * as schemas from "./audit-schemas.ts";
import type { Route } from "./route.ts";

const auditors = ["platform", "viewer", "operator", "admin"] as const satisfies readonly KeyRole[];

export const auditRoutes = {
  readAudit: {
    method: "GET",
    path: "/api/v1/audit",
    summary: "Read the audit trail, oldest first, each record with its hash.",
    access: auditors,
    query: schemas.auditQuery,
    replies: { 200: schemas.auditPage },
    errors: [],
  },
  verifyAudit: {
    method: "GET",
    path: "/api/v1/audit/verify",
    summary: "Compare every audit record that is kept with its hash, and name the first that was changed.",
    access: auditors,
    query: schemas.verifyQuery,
    replies: { 200: schemas.auditVerdict },
    errors: [],
  },
} as const satisfies Record<string, Route>;
