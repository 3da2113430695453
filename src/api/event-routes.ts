// Events of the HTTP contract: rows page by page, and streams.
import * as z from "zod";
import type { KeyRole } from "../domain/api-key.ts";
import { runStatuses } from "../domain/run.ts";
import { nothing, pageQuery, tenantName, time } from "./fields.ts";
import { eventStreamType, type Route } from "./route.ts";

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
    step_ids: z
      .array(z.string())
      .exactOptional()
      .meta({ description: "Steps that the change named in `detail`; at most four." }),
    approval_id: z.string().exactOptional().meta({ description: "Of an approval that is asked for." }),
    step_id: z.string().exactOptional().meta({ description: "The step that waits for the approval." }),
    decision: z.string().exactOptional(),
    /** Of what was shown to the approver. */
    hash: z.string().exactOptional(),
    collection: z.string().exactOptional(),
    document_id: z.string().exactOptional(),
    budget: z.string().exactOptional().meta({ description: "The one that has crossed so many percent." }),
    percent: z.number().exactOptional(),
  })
  .meta({ id: "Event", description: "One change of something of a tenant's, as it was recorded." });

const eventPage = z
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

const eventsQuery = z.strictObject({ ...pageQuery, from, tenant });

/** Browsers cannot send the header with their first request. */
const last_event_id = z
  .string()
  .max(32)
  .exactOptional()
  .meta({ description: "The same as the Last-Event-ID header, which wins." });

const streamQuery = z.strictObject({ last_event_id, from, tenant });
const runStreamQuery = z.strictObject({ last_event_id });
const streamText = z.string().meta({
  description: "Server-sent events: `id` is a number that grows, `event` a type, `data` one line of JSON.",
});

const readers = ["viewer", "operator", "admin"] as const satisfies readonly KeyRole[];
const auditors = ["platform", ...readers] as const satisfies readonly KeyRole[];

export const eventRoutes = {
  readEvents: {
    method: "GET",
    path: "/api/v1/events",
    summary: "Read what was changed in the tenant, oldest first.",
    access: auditors,
    query: eventsQuery,
    replies: { 200: eventPage },
    errors: [],
  },
  streamEvents: {
    method: "GET",
    path: "/api/v1/events/stream",
    summary: "Follow what is changed in the tenant, from now on or after Last-Event-ID.",
    access: auditors,
    query: streamQuery,
    mediaType: eventStreamType,
    replies: { 200: streamText },
    errors: [],
  },
  streamRunEvents: {
    method: "GET",
    path: "/api/v1/workflow-runs/{id}/events",
    summary: "Follow a run's timeline from its first row, or after Last-Event-ID, to the run's end.",
    access: readers,
    query: runStreamQuery,
    mediaType: eventStreamType,
    replies: { 200: streamText, 204: nothing },
    errors: ["run_not_found"],
  },
} as const satisfies Record<string, Route>;
