// The operations on work that was given up.
import * as z from "zod";
import type { KeyRole } from "../domain/api-key.ts";
import * as schemas from "./dead-letter-schemas.ts";
import { nothing, pageOf, pageQuery } from "./fields.ts";
import type { Route } from "./route.ts";

const readers = ["viewer", "operator", "admin"] as const satisfies readonly KeyRole[];
const operators = ["operator", "admin"] as const satisfies readonly KeyRole[];

const listQuery = z.strictObject({
  ...pageQuery,
  state: schemas.letterState.exactOptional(),
  reason: schemas.letterReason.exactOptional(),
});

export const deadLetterRoutes = {
  listDeadLetters: {
    method: "GET",
    path: "/api/v1/dlq",
    summary: "List the work that was given up.",
    access: readers,
    query: listQuery,
    replies: { 200: pageOf(schemas.deadLetter) },
    errors: [],
  },
  listDeadLetterPage: {
    method: "GET",
    path: "/api/v1/dlq/page",
    summary: "List the work that was given up, by the path that older clients know.",
    access: readers,
    query: listQuery,
    replies: { 200: pageOf(schemas.deadLetter) },
    errors: [],
  },
  inspectDeadLetter: {
    method: "GET",
    path: "/api/v1/dlq/{id}",
    summary: "Show a dead letter with its error, its input, and whether it can be retried.",
    access: readers,
    replies: { 200: schemas.deadLetterDetails },
    errors: ["dead_letter_not_found"],
  },
  retryDeadLetter: {
    method: "POST",
    path: "/api/v1/dlq/{id}/retry",
    summary: "Let the same run and step go on with the next attempt; repeating does nothing more.",
    access: operators,
    body: schemas.retryBody,
    replies: { 200: schemas.retriedLetter },
    errors: [
      "dead_letter_not_found",
      "dead_letter_not_retryable",
      "max_concurrent_runs_reached",
      "tenant_stopped",
      "effect_unknown",
    ],
  },
  removeDeadLetter: {
    method: "DELETE",
    path: "/api/v1/dlq/{id}",
    summary: "Remove a dead letter; its run stays as it is.",
    access: operators,
    replies: { 204: nothing },
    errors: ["dead_letter_not_found", "effect_unknown"],
  },
  purgeDeadLetters: {
    method: "POST",
    path: "/api/v1/dlq/purge",
    summary: "Remove dead letters by age, reason and state, some hundred per call.",
    access: operators,
    body: schemas.purgeBody,
    replies: { 200: schemas.purgeAnswer },
    errors: ["effect_unknown"],
  },
} as const satisfies Record<string, Route>;
