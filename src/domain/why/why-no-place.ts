// Why a job gets no place to run in: its topic is full, or none of the pools whose workers could do it may take it.
import type { Job } from "../job.ts";
import { defaultPool, judgePlace, type PlaceRefusal, poolLimits, topicLimits } from "../place.ts";
import type { PlaceFacts, WorkerFacts } from "./facts.ts";

export type NoPlace = {
  readonly because: PlaceRefusal;
  readonly detail: string;
  readonly whatToDo: string;
  /** Of the limit that is reached. */
  readonly places?: { readonly running: number; readonly max: number };
};

export function whyTopicFull({ limits, topics }: PlaceFacts, { topic }: Job): NoPlace | undefined {
  const max = topicLimits(limits, topic)?.maxRunning;
  const running = topics.get(topic) ?? 0;
  if (max === undefined || running < max) return undefined;
  return {
    because: "topic_full",
    detail: `${running} jobs of topic ${topic} run, and ${max} may.`,
    whatToDo: `Wait for one of them to end, or raise the limit with PUT /api/v1/topics/${topic}.`,
    places: { running, max },
  };
}

/** Whether the pool of this worker may take the job, with the topic's own limit left aside. */
export function whyPoolRefuses(facts: PlaceFacts, { topic }: Job, worker: WorkerFacts): NoPlace | undefined {
  const { pool = defaultPool } = worker;
  const running = facts.pools.get(pool) ?? 0;
  const because = judgePlace(facts.limits, { topic, pool }, { topic: () => -1, pool: () => running });
  const { maxRunning: max = 0, topics = [] } = poolLimits(facts.limits, pool) ?? {};
  const path = `/api/v1/pools/${pool}`;
  switch (because) {
    case "pool_draining":
      return {
        because,
        detail: `Pool ${pool}, whose workers could do it, drains: they get no new jobs.`,
        whatToDo: `Start workers in another pool, or end the draining with POST ${path}/drain {"draining": false}.`,
      };
    case "pool_without_topic":
      return {
        because,
        detail: `Pool ${pool} has workers that ask for topic ${topic}, but is restricted to ${topics.join(", ") || "no topic at all"}.`,
        whatToDo: `Give it the topic with PUT ${path}/topics/${topic}, or start workers in another pool.`,
      };
    case "pool_full":
      return {
        because,
        detail: `${running} jobs run in pool ${pool}, and ${max} may.`,
        whatToDo: `Wait for one of them to end, or raise the limit with PATCH ${path}.`,
        places: { running, max },
      };
    case "topic_full":
    case undefined:
      return undefined;
  }
}
