// The rows of the routes table about events: read page by page, or as they happen.
import type { KeyRole } from "../domain/api-key.ts";
import * as schemas from "./event-schemas.ts";
import { nothing } from "./fields.ts";
import { eventStreamType, type Route } from "./route.ts";

const readers = ["viewer", "operator", "admin"] as const satisfies readonly KeyRole[];
const auditors = ["platform", ...readers] as const satisfies readonly KeyRole[];

export const eventRoutes = {
  readEvents: {
    method: "GET",
    path: "/api/v1/events",
    summary: "Read what was changed in the tenant, oldest first.",
    access: auditors,
    query: schemas.eventsQuery,
    replies: { 200: schemas.eventPage },
    errors: [],
  },
  streamEvents: {
    method: "GET",
    path: "/api/v1/events/stream",
    summary: "Follow what is changed in the tenant, from now on or after Last-Event-ID.",
    access: auditors,
    query: schemas.streamQuery,
    mediaType: eventStreamType,
    replies: { 200: schemas.streamText },
    errors: [],
  },
  streamRunEvents: {
    method: "GET",
    path: "/api/v1/workflow-runs/{id}/events",
    summary: "Follow a run's timeline from its first row, or after Last-Event-ID, to the run's end.",
    access: readers,
    query: schemas.runStreamQuery,
    mediaType: eventStreamType,
    replies: { 200: schemas.streamText, 204: nothing },
    errors: ["run_not_found"],
  },
} as const satisfies Record<string, Route>;
