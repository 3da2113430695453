// Places of running jobs: how many a tenant's topics and pools have, and whether one more job may run.
import type { TenantSettings } from "./tenant.ts";

/** The pool of workers that name none. */
export const defaultPool = "default";

/** Where a running job counts. */
export type Place = { readonly topic: string; readonly pool: string };

export type TopicLimits = {
  /** Jobs of the topic that may run at once; those that wait for a worker do not count. */
  readonly maxRunning: number;
};

export type PoolLimits = {
  /** Jobs that the pool's workers may run at once, all of them together. */
  readonly maxRunning?: number;
  /** Its workers get no new jobs; what they run goes on. */
  readonly draining?: true;
  /** The only topics of which its workers get jobs; absent means all. */
  readonly topics?: readonly string[];
};

const placeRefusals = ["pool_draining", "pool_without_topic", "topic_full", "pool_full"] as const;
export type PlaceRefusal = (typeof placeRefusals)[number];

export function isPlaceRefusal(because: string): because is PlaceRefusal {
  return placeRefusals.some((refusal) => refusal === because);
}

type Limits = Pick<TenantSettings, "topics" | "pools">;

/** Whether the running jobs of the tenant are counted. */
export function hasLimits({ topics = {}, pools = {} }: Limits): boolean {
  return Object.keys(topics).length > 0 || Object.keys(pools).length > 0;
}

/** Own entries only: a topic may be called `constructor`. */
export function topicLimits({ topics = {} }: Limits, topic: string): TopicLimits | undefined {
  return Object.hasOwn(topics, topic) ? topics[topic] : undefined;
}

export function poolLimits({ pools = {} }: Limits, pool: string): PoolLimits | undefined {
  return Object.hasOwn(pools, pool) ? pools[pool] : undefined;
}

/** Why a job may not begin to run in this place; `running` counts those that do, and is asked only if that matters. */
export function judgePlace(
  limits: Limits,
  { topic, pool }: Place,
  running: { topic(): number; pool(): number },
): PlaceRefusal | undefined {
  const ofPool = poolLimits(limits, pool);
  if (ofPool?.draining === true) return "pool_draining";
  if (ofPool?.topics !== undefined && !ofPool.topics.includes(topic)) return "pool_without_topic";
  const ofTopic = topicLimits(limits, topic);
  if (ofTopic !== undefined && running.topic() >= ofTopic.maxRunning) return "topic_full";
  return ofPool?.maxRunning !== undefined && running.pool() >= ofPool.maxRunning ? "pool_full" : undefined;
}
