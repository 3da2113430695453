// The operations on pools and topics: limits on running jobs, and draining.
import * as z from "zod";
import type { KeyRole } from "../domain/api-key.ts";
import { nothing, pageOf } from "./fields.ts";
import * as schemas from "./pool-schemas.ts";
import type { Route } from "./route.ts";

const readers = ["viewer", "operator", "admin"] as const satisfies readonly KeyRole[];
const admins = ["admin"] as const satisfies readonly KeyRole[];

const changeErrors = ["version_conflict", "effect_unknown"] as const;

export const poolRoutes = {
  listPools: {
    method: "GET",
    path: "/api/v1/pools",
    summary: "List the pools that have limits or workers, with what they run.",
    access: readers,
    query: z.strictObject({}),
    replies: { 200: pageOf(schemas.pool) },
    errors: [],
  },
  getPool: {
    method: "GET",
    path: "/api/v1/pools/{id}",
    summary: "Show a pool: its limits, what it runs, and whether it has drained.",
    access: readers,
    replies: { 200: schemas.pool },
    errors: ["pool_not_found"],
  },
  setPool: {
    method: "PUT",
    path: "/api/v1/pools/{id}",
    summary: "Set a pool's limits; a new name makes a new pool.",
    access: admins,
    body: schemas.poolBody,
    replies: { 200: schemas.pool },
    errors: changeErrors,
  },
  changePool: {
    method: "PATCH",
    path: "/api/v1/pools/{id}",
    summary: "Change some of a pool's limits.",
    access: admins,
    body: schemas.poolChangesBody,
    replies: { 200: schemas.pool },
    errors: ["pool_not_found", ...changeErrors],
  },
  removePool: {
    method: "DELETE",
    path: "/api/v1/pools/{id}",
    summary: "Remove a pool's limits; its workers may go on.",
    access: admins,
    replies: { 204: nothing },
    errors: ["pool_not_found", ...changeErrors],
  },
  drainPool: {
    method: "POST",
    path: "/api/v1/pools/{id}/drain",
    summary: "Give a pool's workers no new jobs, or jobs again; what they run goes on.",
    access: admins,
    body: schemas.drainBody,
    replies: { 200: schemas.pool },
    errors: ["pool_not_found", ...changeErrors],
  },
  addPoolTopic: {
    method: "PUT",
    path: "/api/v1/pools/{id}/topics/{topic}",
    summary: "Restrict a pool to this topic and those that it has already.",
    access: admins,
    replies: { 200: schemas.pool },
    errors: changeErrors,
  },
  removePoolTopic: {
    method: "DELETE",
    path: "/api/v1/pools/{id}/topics/{topic}",
    summary: "Take a topic from a pool that is restricted to some; without its last one it gets no jobs.",
    access: admins,
    replies: { 204: nothing },
    errors: ["pool_not_found", ...changeErrors],
  },
  listTopics: {
    method: "GET",
    path: "/api/v1/topics",
    summary: "List the topics that have a limit or workers, with what runs and waits.",
    access: readers,
    query: z.strictObject({}),
    replies: { 200: pageOf(schemas.topicLimit) },
    errors: [],
  },
  setTopic: {
    method: "PUT",
    path: "/api/v1/topics/{id}",
    summary: "Limit how many jobs of a topic run at once.",
    access: admins,
    body: schemas.topicBody,
    replies: { 200: schemas.topicLimit },
    errors: changeErrors,
  },
  removeTopic: {
    method: "DELETE",
    path: "/api/v1/topics/{id}",
    summary: "Remove a topic's limit.",
    access: admins,
    replies: { 204: nothing },
    errors: ["topic_not_found", ...changeErrors],
  },
} as const satisfies Record<string, Route>;
