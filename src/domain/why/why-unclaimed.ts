// Why no worker takes a job, as far as the process that is asked can see.
import { formatTime } from "../engine/rfc3339.ts";
import { similarTopics } from "../excerpt.ts";
import {
  defaultPool,
  type Job,
  judgePlace,
  missingRequirements,
  type PlaceRefusal,
  poolLimits,
  type Qualities,
  topicLimits,
} from "../job.ts";
import type {
  LiveRunFacts,
  PlaceFacts,
  UnclaimedItem,
  UnclaimedReason,
  WorkerFacts,
  WorkerItem,
} from "./explanation.ts";

import { whyRated } from "./why-limited.ts";

/** Of workers shown with one job. */
const workersMax = 5;

/** A worker that comes back from its work at once is not called silent. */
const silentAfterMs = 5_000;

type Verdict = {
  readonly because: UnclaimedReason;
  readonly detail: string;
  readonly whatToDo: string;
  readonly workers: readonly WorkerFacts[];
  readonly places?: { readonly running: number; readonly max: number };
};

export function whyUnclaimed(facts: LiveRunFacts, job: Job): UnclaimedItem {
  const verdict = judge(facts, job);
  const workers = verdict.workers.slice(0, workersMax).map((worker) => workerItem(worker, job.requires));
  const [nearest] = workers;
  const isLacking = verdict.because === "capability_missing" || verdict.because === "label_missing";
  const topics = facts.workers.flatMap((worker) => worker.topics);
  return {
    kind: "job_unclaimed",
    step_id: job.step,
    since: formatTime(job.createdAtMs),
    job_id: job.jobId,
    topic: job.topic,
    attempt: job.attempt,
    republished: job.republished,
    because: verdict.because,
    detail: verdict.detail,
    ...(verdict.places === undefined ? {} : { places: verdict.places }),
    ...(isLacking && nearest?.missing_capabilities !== undefined
      ? { missing_capabilities: nearest.missing_capabilities }
      : {}),
    ...(isLacking && nearest?.missing_labels !== undefined ? { missing_labels: nearest.missing_labels } : {}),
    workers,
    similar_topics: verdict.because === "no_worker_for_topic" ? similarTopics(job.topic, topics) : [],
    what_to_do: verdict.whatToDo,
  };
}

function judge(facts: LiveRunFacts, job: Job): Verdict {
  if (facts.slots.kind === "known" && facts.slots.value.stopped) {
    return {
      because: "tenant_stopped",
      detail: "The tenant is stopped: no job of it may be claimed.",
      whatToDo: "Ask whoever threw the kill switch; it is set with PATCH /api/v1/tenants/{id}.",
      workers: [],
    };
  }
  if (facts.header.cancelRequested !== undefined) {
    return {
      because: "run_cancelling",
      detail: "The run is being cancelled: none of its jobs may be claimed any more.",
      whatToDo: "Nothing: the job is called off when the cancel is applied.",
      workers: [],
    };
  }
  const ofTopic = facts.workers.filter(({ topics }) => topics.includes(job.topic));
  const full = facts.places === undefined ? undefined : whyTopicFull(facts.places, job);
  if (full !== undefined) return { ...full, workers: byFreedom(ofTopic) };
  const rated = facts.places === undefined ? undefined : whyRated(facts.places, job);
  if (rated !== undefined) return { ...rated, workers: byFreedom(ofTopic) };
  return ofTopic.length === 0 ? noWorker(facts, job) : judgeWorkers(facts, job, ofTopic);
}

function noWorker({ instance }: LiveRunFacts, { topic }: Job): Verdict {
  return {
    because: "no_worker_for_topic",
    detail: `No worker has asked for topic ${topic} in the last two minutes, as seen by this process (${instance}).`,
    whatToDo: `Start a worker that polls for topic ${topic}, or correct the topic in the workflow.`,
    workers: [],
  };
}

function judgeWorkers(facts: LiveRunFacts, job: Job, ofTopic: readonly WorkerFacts[]): Verdict {
  const { topic, requires } = job;
  const lacking = ofTopic.map((worker) => ({ worker, missing: missingRequirements(requires, worker) }));
  const able = lacking.filter(({ missing }) => amountOf(missing) === 0).map(({ worker }) => worker);
  if (able.length === 0) return unfit(facts, topic, lacking);
  const refusals = able.map((worker) => facts.places && whyPoolRefuses(facts.places, job, worker));
  const fitting = able.filter((_worker, index) => refusals[index] === undefined);
  const [refused] = refusals;
  if (fitting.length === 0 && refused !== undefined) return { ...refused, workers: byFreedom(able) };
  const seen = `as seen by this process (${facts.instance})`;
  if (fitting.some(({ free = 0 }) => free > 0)) {
    return {
      because: "being_offered",
      detail: `A worker with a free place waits for topic ${topic}: it gets the job at once, or it was given to another.`,
      whatToDo: "Ask again in a second; if it stays so, the hint was lost and the sweep sends it again.",
      workers: byFreedom(fitting),
    };
  }
  if (fitting.every(isFull)) {
    return {
      because: "workers_full",
      detail: `All ${fitting.length} workers for topic ${topic} are busy, ${seen}.`,
      whatToDo: "Wait for one of them to end its work, or start more workers.",
      workers: byFreedom(fitting),
    };
  }
  if (fitting.every(({ lastSeenMsAgo }) => lastSeenMsAgo > silentAfterMs)) {
    return {
      because: "workers_not_polling",
      detail: `The workers for topic ${topic} were here within the last two minutes and do not ask for jobs now, ${seen}.`,
      whatToDo: "See whether they still run, and whether they reach this server.",
      workers: byFreedom(fitting),
    };
  }
  return {
    because: "being_offered",
    detail: `Workers for topic ${topic} are between two polls.`,
    whatToDo: "Ask again in a second.",
    workers: byFreedom(fitting),
  };
}

/** Busy: its polls have no place left, or it works and does not ask for more. */
function isFull({ free, running }: WorkerFacts): boolean {
  return free === undefined ? running > 0 : free === 0;
}

type Lacking = { readonly worker: WorkerFacts; readonly missing: Qualities };

function unfit({ instance }: LiveRunFacts, topic: string, lacking: readonly Lacking[]): Verdict {
  const nearest = [...lacking].sort((left, right) => amountOf(left.missing) - amountOf(right.missing));
  const missing = nearest[0]?.missing ?? { labels: {}, capabilities: [] };
  const capabilities = missing.capabilities.join(", ");
  const labels = Object.entries(missing.labels)
    .map(([label, value]) => `${label}=${value}`)
    .join(", ");
  const parts = [
    capabilities === "" ? "" : `the capability ${capabilities}`,
    labels === "" ? "" : `the label ${labels}`,
  ].filter((part) => part !== "");
  return {
    because: capabilities === "" ? "label_missing" : "capability_missing",
    detail: `No worker for topic ${topic} has all that the step requires, as seen by this process (${instance}); ${nearest[0]?.worker.worker} comes nearest and lacks ${parts.join(" and ")}.`,
    whatToDo: `Start a worker that offers ${parts.join(" and ")} in its poll, or change what the step requires.`,
    workers: nearest.map(({ worker }) => worker),
  };
}

function amountOf({ capabilities, labels }: Qualities): number {
  return capabilities.length + Object.keys(labels).length;
}

/** Those with most places first, then those seen last. */
function byFreedom(workers: readonly WorkerFacts[]): readonly WorkerFacts[] {
  return [...workers].sort(
    (left, right) => (right.free ?? -1) - (left.free ?? -1) || left.lastSeenMsAgo - right.lastSeenMsAgo,
  );
}

function workerItem(worker: WorkerFacts, requires: string | undefined): WorkerItem {
  const { capabilities, labels } = missingRequirements(requires, worker);
  return {
    worker_id: worker.worker,
    running: worker.running,
    jobs: worker.jobs,
    last_seen_ms_ago: Math.round(worker.lastSeenMsAgo),
    ...(worker.free === undefined ? {} : { free_places: worker.free }),
    ...(capabilities.length === 0 ? {} : { missing_capabilities: capabilities }),
    ...(Object.keys(labels).length === 0 ? {} : { missing_labels: labels }),
  };
}

type NoPlace = {
  readonly because: PlaceRefusal;
  readonly detail: string;
  readonly whatToDo: string;
  /** Of the limit that is reached. */
  readonly places?: { readonly running: number; readonly max: number };
};

function whyTopicFull({ limits, topics }: PlaceFacts, { topic }: Job): NoPlace | undefined {
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
function whyPoolRefuses(facts: PlaceFacts, { topic }: Job, worker: WorkerFacts): NoPlace | undefined {
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
    case "topic_rate":
    case undefined:
      return undefined;
  }
}
