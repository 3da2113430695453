// Dead letters as the API shows them, and what may be asked of them.
import * as z from "zod";
import { letterStates } from "../domain/dead-letter.ts";
import { parseTime } from "../domain/engine/rfc3339.ts";
import { deadLetterReasons } from "../domain/run.ts";
import { anyJson, time } from "./fields.ts";
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
