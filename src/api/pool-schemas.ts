// Pools and topics as the HTTP contract shows them.
import * as z from "zod";
import { topic } from "./fields.ts";

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

export const pool = z
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

export const poolBody = z
  .strictObject({ max_running: maxRunning.exactOptional(), topics: onlyTopics.exactOptional() })
  .meta({
    id: "PoolLimits",
    description: "What is absent is not limited. Whether it drains stays as it is.",
  });

export const poolChangesBody = z
  .strictObject({
    max_running: maxRunning.nullable().exactOptional(),
    topics: onlyTopics.nullable().exactOptional(),
    draining: z.boolean().exactOptional(),
  })
  .meta({ id: "PoolChanges", description: "Null removes a limit; what is absent stays." });

export const drainBody = z
  .strictObject({
    draining: z.boolean().default(true).meta({ description: "False lets its workers have jobs again." }),
  })
  .meta({ id: "Drain" });

export const topicLimit = z
  .object({
    name: z.string(),
    max_running: maxRunning.exactOptional(),
    running: z.number().meta({ description: "Jobs that run now, counted while the tenant has limits." }),
    waiting: z.number().meta({ description: "Jobs that wait for a worker." }),
    workers: z.array(z.string()).meta({ description: "Those seen lately." }),
  })
  .meta({ id: "Topic" });

export const topicBody = z.strictObject({ max_running: maxRunning }).meta({ id: "TopicLimit" });
