// Events in the HTTP contract: the rows of a tenant, and what a stream of them is asked for with.
import * as z from "zod";
import { runStatuses } from "../domain/run.ts";
import { pageQuery, tenantName, time } from "./fields.ts";

export const event = z
  .object({
    sequence: z.number().meta({ description: "Without gaps, from 1, per tenant." }),
    at: time,
    type: z.string(),
    subject: z.string().meta({ description: "The run, approval, document or tenant that changed." }),
    actor: z.string(),
    detail: z.string(),
    run_id: z.string().exactOptional(),
    workflow_id: z.string().exactOptional(),
    version: z.number().exactOptional().meta({ description: "The run's, after the change." }),
    status: z.enum(runStatuses).exactOptional().meta({ description: "The run's, after the change." }),
    decision: z.string().exactOptional(),
    /** Of what was shown to the approver. */
    hash: z.string().exactOptional(),
    collection: z.string().exactOptional(),
    document_id: z.string().exactOptional(),
  })
  .meta({ id: "Event", description: "One change of something of a tenant's, as it was recorded." });

export const eventPage = z
  .object({
    items: z.array(event),
    next_cursor: z.string().meta({ description: "Where to go on; also when nothing more is there yet." }),
    has_more: z.boolean().meta({ description: "There are rows after these already." }),
    reset: z.boolean().meta({ description: "Rows after the cursor were dropped, or never written here." }),
    first: z.number().meta({ description: "The oldest row that is kept." }),
    last: z.number().meta({ description: "The newest row." }),
  })
  .meta({ id: "EventPage" });

const from = z
  .enum(["now", "start"])
  .exactOptional()
  .meta({ description: "Where to begin when no place is named." });

const tenant = tenantName.exactOptional().meta({ description: "For platform keys: whose events." });

export const eventsQuery = z.strictObject({ ...pageQuery, from, tenant });

/** Browsers cannot send the header with their first request. */
const last_event_id = z
  .string()
  .max(32)
  .exactOptional()
  .meta({ description: "The same as the Last-Event-ID header, which wins." });

export const streamQuery = z.strictObject({ last_event_id, from, tenant });
export const runStreamQuery = z.strictObject({ last_event_id });
export const streamText = z.string().meta({
  description: "Server-sent events: `id` is a number that grows, `event` a type, `data` one line of JSON.",
});
