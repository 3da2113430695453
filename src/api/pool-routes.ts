// Pools and topics of the HTTP contract.
import * as z from "zod";
import type { KeyRole } from "../domain/api-key.ts";
import { nothing, pageOf, topic } from "./fields.ts";
import type { Route } from "./route.ts";

/** Pools are named as topics are. */
export const poolName = topic;

const maxRunning = z
  .number()
  .int()
  .min(0)
  .max(1_000_000)
  .meta({ description: "Jobs that may run at once; those that wait for a worker do not count." });

const onlyTopics = z
  .array(topic)
  .max(200)
  .meta({ description: "The only topics of which its workers get jobs; absent means all." });

const pool = z
  .object({
    name: z.string(),
    max_running: maxRunning.exactOptional(),
    topics: onlyTopics.exactOptional(),
    draining: z.boolean().meta({ description: "Its workers get no new jobs." }),
    drained: z.boolean().meta({ description: "It drains, and none of its jobs runs any more." }),
    running: z.number().meta({
      description:
        "Jobs that run now. Those of the pool `default` are counted while the tenant has limits, from their next heartbeat on.",
    }),
    workers: z.array(z.string()).meta({ description: "Those seen lately." }),
  })
  .meta({ id: "Pool" });

const poolBody = z
  .strictObject({ max_running: maxRunning.exactOptional(), topics: onlyTopics.exactOptional() })
  .meta({
    id: "PoolLimits",
    description: "What is absent is not limited. Whether it drains stays as it is.",
  });

const poolChangesBody = z
  .strictObject({
    max_running: maxRunning.nullable().exactOptional(),
    topics: onlyTopics.nullable().exactOptional(),
    draining: z.boolean().exactOptional(),
  })
  .meta({ id: "PoolChanges", description: "Null removes a limit; what is absent stays." });

const drainBody = z
  .strictObject({
    draining: z.boolean().default(true).meta({ description: "False lets its workers have jobs again." }),
  })
  .meta({ id: "Drain" });

const topicLimit = z
  .object({
    name: z.string(),
    max_running: maxRunning.exactOptional(),
    running: z.number().meta({ description: "Jobs that run now, counted while the tenant has limits." }),
    waiting: z.number().meta({ description: "Jobs that wait for a worker." }),
    workers: z.array(z.string()).meta({ description: "Those seen lately." }),
  })
  .meta({ id: "Topic" });

const topicBody = z.strictObject({ max_running: maxRunning }).meta({ id: "TopicLimit" });

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
    replies: { 200: pageOf(pool) },
    errors: [],
  },
  getPool: {
    method: "GET",
    path: "/api/v1/pools/{id}",
    summary: "Show a pool: its limits, what it runs, and whether it has drained.",
    access: readers,
    replies: { 200: pool },
    errors: ["pool_not_found"],
  },
  setPool: {
    method: "PUT",
    path: "/api/v1/pools/{id}",
    summary: "Set a pool's limits; a new name makes a new pool.",
    access: admins,
    body: poolBody,
    replies: { 200: pool },
    errors: changeErrors,
  },
  changePool: {
    method: "PATCH",
    path: "/api/v1/pools/{id}",
    summary: "Change some of a pool's limits.",
    access: admins,
    body: poolChangesBody,
    replies: { 200: pool },
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
    body: drainBody,
    replies: { 200: pool },
    errors: ["pool_not_found", ...changeErrors],
  },
  addPoolTopic: {
    method: "PUT",
    path: "/api/v1/pools/{id}/topics/{topic}",
    summary: "Restrict a pool to this topic and those that it has already.",
    access: admins,
    replies: { 200: pool },
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
    replies: { 200: pageOf(topicLimit) },
    errors: [],
  },
  setTopic: {
    method: "PUT",
    path: "/api/v1/topics/{id}",
    summary: "Limit how many jobs of a topic run at once.",
    access: admins,
    body: topicBody,
    replies: { 200: topicLimit },
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
