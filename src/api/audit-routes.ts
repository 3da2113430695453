// The audit trail of the HTTP contract: its records and its verification.
import * as z from "zod";
import type { KeyRole } from "../domain/api-key.ts";
import { eventTypes } from "../domain/audit.ts";
import { freeText, pageQuery, tenantName, time, wholeNumberText } from "./fields.ts";
import type { Route } from "./route.ts";

const auditRecord = z
  .object({
    sequence: z.number().meta({ description: "Without gaps, from 1, per tenant." }),
    at: time,
    type: z.string(),
    subject: z.string().meta({ description: "The run, approval, document or tenant that changed." }),
    actor: z.string().meta({ description: "The id of the key, or the process that acted by itself." }),
    actor_name: z
      .string()
      .exactOptional()
      .meta({ description: "Who the actor's key belongs to, while there is such a key." }),
    actor_role: z.string().exactOptional(),
    detail: z.string().meta({ description: "What changed, in words." }),
    hash: z
      .string()
      .exactOptional()
      .meta({ description: "Over this record and the hash before it; absent until it is sealed." }),
  })
  .meta({
    id: "AuditRecord",
    description: "One change of something of a tenant's, and its link of the chain.",
  });

const auditPage = z
  .object({
    items: z.array(auditRecord),
    next_cursor: z.string().nullable(),
    first: z.number().meta({ description: "The oldest record that is kept." }),
    last: z.number().meta({ description: "The newest record." }),
  })
  .meta({ id: "AuditPage" });

const tenant = tenantName
  .exactOptional()
  .meta({ description: "For platform keys: whose trail; the platform's own by default." });

const auditQuery = z.strictObject({
  ...pageQuery,
  tenant,
  after: wholeNumberText({ min: 0, max: 999_999_999 })
    .exactOptional()
    .meta({ description: "Without a cursor: begin after the record of this number." }),
  type: z.enum(eventTypes).exactOptional().meta({ description: "Only records of this type." }),
  actor: freeText(200).min(1).exactOptional().meta({ description: "Only what this actor did." }),
});

const headPattern = /^\d{1,12}:[A-Za-z0-9_-]{43}$/;

const verifyQuery = z.strictObject({
  tenant,
  expect: z
    .string()
    .regex(headPattern, "must be a number, a colon and a hash, as `head` was")
    .exactOptional()
    .meta({ description: "The head of an earlier verification: it must still be part of the chain." }),
});

const gap = z.object({
  from: z.number(),
  to: z.number(),
  why: z.enum(["dropped", "missing"]).meta({
    description: "dropped: more came than the store keeps. missing: somebody removed them.",
  }),
});

const headState = z.enum(["same", "different", "gone", "not_kept"]);

const auditVerdict = z
  .object({
    status: z.enum(["intact", "incomplete", "broken"]).meta({
      description:
        "incomplete: all that is there is as it was sealed, but some records had been dropped before they were.",
    }),
    tenant: z.string(),
    total_events: z.number().meta({ description: "Records that were compared with their hashes." }),
    gaps: z.array(gap).meta({ description: "Records that were never sealed." }),
    first_broken: z
      .object({
        sequence: z.number(),
        why: z.enum([
          "row_changed",
          "row_missing",
          "hash_changed",
          "seal_changed",
          "seal_missing",
          "other_secret",
        ]),
      })
      .exactOptional()
      .meta({ description: "The first record that is not as it was sealed." }),
    sealed_to: z.number(),
    head: z.string().nullable().meta({
      description: "The newest record's number and hash: note it elsewhere and ask with `expect` later.",
    }),
    kept_from: z.number().meta({ description: "Older records are dropped, as the store is set to." }),
    expected: headState.exactOptional().meta({
      description: "What became of the head that was asked about; not_kept: it is too old to tell.",
    }),
    anchored: z.object({ sequence: z.number(), state: headState }).exactOptional().meta({
      description:
        "What became of the newest head that the server keeps outside the store; absent if it has none.",
    }),
    not_ruled_out: z
      .array(z.enum(["rewritten_unanchored", "rewritten_after_anchor", "recomputed_without_secret"]))
      .meta({
        description:
          "What somebody who can write to the store could have done unnoticed: make seals again, of all records or of those after the newest head that is known; or compute hashes, since there is no secret.",
      }),
  })
  .meta({ id: "AuditVerdict" });

const auditors = ["platform", "viewer", "operator", "admin"] as const satisfies readonly KeyRole[];

export const auditRoutes = {
  readAudit: {
    method: "GET",
    path: "/api/v1/audit",
    summary: "Read the audit trail, oldest first, each record with its hash.",
    access: auditors,
    query: auditQuery,
    replies: { 200: auditPage },
    errors: [],
  },
  verifyAudit: {
    method: "GET",
    path: "/api/v1/audit/verify",
    summary: "Compare every audit record that is kept with its hash, and name the first that was changed.",
    access: auditors,
    query: verifyQuery,
    replies: { 200: auditVerdict },
    errors: [],
  },
} as const satisfies Record<string, Route>;
