// Dead letters of the HTTP contract.
import * as z from "zod";
import type { KeyRole } from "../domain/api-key.ts";
import { letterStates } from "../domain/dead-letter.ts";
import { parseTime } from "../domain/engine/rfc3339.ts";
import { deadLetterReasons } from "../domain/run.ts";
import { anyJson, nothing, pageOf, pageQuery, time } from "./fields.ts";
import type { Route } from "./route.ts";
import { runStatus } from "./schemas.ts";

export const letterState = z.enum(letterStates);
export const letterReason = z.enum(deadLetterReasons);

const letterFields = {
  id: z.string().meta({ description: "Percent-encode it in paths: it may hold : @ [ and ]." }),
  reason: letterReason,
  state: letterState.meta({ description: "open until it was retried." }),
  at: time.meta({ description: "When the work was given up." }),
  run_id: z.string().exactOptional(),
  workflow_id: z.string().exactOptional(),
  step_id: z.string().exactOptional(),
  attempt: z.number().exactOptional(),
  job_id: z.string().exactOptional(),
  topic: z.string().exactOptional(),
  failures: z.number().exactOptional(),
  lost_claims: z.number().exactOptional(),
  error: z.object({ message: z.string(), code: z.string().exactOptional() }).exactOptional(),
  error_key: z.string().exactOptional().meta({ description: "The run's record that holds the error." }),
  because: z.string().exactOptional().meta({ description: "Why the last delivery was refused." }),
  path: z.string(),
};

export const deadLetter = z
  .object(letterFields)
  .meta({ id: "DeadLetter", description: "Work that was given up, with what is known about it." });

export const deadLetterDetails = z
  .object({
    ...letterFields,
    input: anyJson.exactOptional().meta({ description: "What the job was given." }),
    content: anyJson.exactOptional().meta({
      description: "The entry that could not be applied, or the result that could not be delivered.",
    }),
    run_status: runStatus.exactOptional().meta({ description: "Absent when the run is gone." }),
    retryable: z.boolean(),
    not_retryable_because: z.string().exactOptional(),
    retry_path: z.string().exactOptional(),
  })
  .meta({ id: "DeadLetterDetails" });

export const retriedLetter = z
  .object({
    job_id: z.string().meta({ description: "The attempt that had failed." }),
    run_id: z.string(),
    step_id: z.string(),
    status: z.literal("retrying"),
    already: z.boolean().meta({ description: "It was retried before: nothing was changed." }),
  })
  .meta({ id: "RetriedLetter" });

const timeText = z
  .string()
  .refine((text) => parseTime(text) !== undefined, "must be an RFC 3339 time with an offset")
  .meta({ format: "date-time" });

export const purgeBody = z
  .strictObject({
    before: timeText.exactOptional().meta({ description: "Only letters that were written before." }),
    reason: letterReason.exactOptional(),
    state: letterState.exactOptional(),
  })
  .meta({ id: "Purge" });

export const purgeAnswer = z
  .object({
    purged: z.number(),
    more: z.boolean().meta({ description: "Not all have been looked at: ask again." }),
  })
  .meta({ id: "PurgeAnswer" });

export const retryBody = z.strictObject({}).meta({ id: "RetryLetter" });

const readers = ["viewer", "operator", "admin"] as const satisfies readonly KeyRole[];
const operators = ["operator", "admin"] as const satisfies readonly KeyRole[];

const listQuery = z.strictObject({
  ...pageQuery,
  state: letterState.exactOptional(),
  reason: letterReason.exactOptional(),
});

export const deadLetterRoutes = {
  listDeadLetters: {
    method: "GET",
    path: "/api/v1/dlq",
    summary: "List the work that was given up.",
    access: readers,
    query: listQuery,
    replies: { 200: pageOf(deadLetter) },
    errors: [],
  },
  listDeadLetterPage: {
    method: "GET",
    path: "/api/v1/dlq/page",
    summary: "List the work that was given up, by the path that older clients know.",
    access: readers,
    query: listQuery,
    replies: { 200: pageOf(deadLetter) },
    errors: [],
  },
  inspectDeadLetter: {
    method: "GET",
    path: "/api/v1/dlq/{id}",
    summary: "Show a dead letter with its error, its input, and whether it can be retried.",
    access: readers,
    replies: { 200: deadLetterDetails },
    errors: ["dead_letter_not_found"],
  },
  retryDeadLetter: {
    method: "POST",
    path: "/api/v1/dlq/{id}/retry",
    summary: "Let the same run and step go on with the next attempt; repeating does nothing more.",
    access: operators,
    body: retryBody,
    replies: { 200: retriedLetter },
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
    body: purgeBody,
    replies: { 200: purgeAnswer },
    errors: ["effect_unknown"],
  },
} as const satisfies Record<string, Route>;
