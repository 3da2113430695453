// Why no worker takes a job: one table of what a process may see of its workers.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { StepRecord } from "../../src/domain/engine/records.ts";
import { similarTopics } from "../../src/domain/excerpt.ts";
import { fitsRequirements, type Job, type JobId, missingRequirements } from "../../src/domain/job.ts";
import type { RunHeader, RunId } from "../../src/domain/run.ts";
import type { TenantId } from "../../src/domain/tenant.ts";
import { chooseSteps } from "../../src/domain/why/explain-run.ts";
import type { LiveRunFacts, PlaceFacts, WorkerFacts } from "../../src/domain/why/explanation.ts";
import { whyUnclaimed } from "../../src/domain/why/why-unclaimed.ts";

const runId = "run_07_0123456789abcdef" as RunId;

const job: Job = {
  jobId: `${runId}:a@1` as JobId,
  runId,
  step: "a",
  attempt: 1,
  topic: "review",
  inputKey: "job-input/a@1",
  state: "ready",
  createdAtMs: 5,
  republished: 0,
};

const header: RunHeader = {
  runId,
  tenant: "acme" as TenantId,
  workflow: "w",
  definition: "d",
  status: "running",
  version: 1,
  actor: "ann",
  admittedAtMs: 0,
  updatedAtMs: 0,
};

const worker = (name: string, more: Partial<WorkerFacts> = {}): WorkerFacts => ({
  worker: name,
  topics: ["review"],
  labels: {},
  capabilities: [],
  running: 0,
  jobs: [],
  lastSeenMsAgo: 10,
  ...more,
});

const busy = { running: 1, jobs: [`${runId}:b@1` as JobId] };
const requires = JSON.stringify({ labels: { zone: "eu" }, capabilities: ["gpu", "ocr"] });

type Given = Partial<LiveRunFacts> & { readonly requires?: string };

const limited = (limits: PlaceFacts["limits"], running: { topic?: number; pool?: number } = {}): Given => ({
  places: {
    limits,
    topics: new Map([["review", running.topic ?? 0]]),
    pools: new Map([["gpu", running.pool ?? 0]]),
    rated: new Map(),
  },
});
const inGpu = worker("v", { pool: "gpu", free: 2 });

const cases: ReadonlyArray<{ what: string; given: Given; because: string; detail: RegExp }> = [
  {
    what: "as many jobs of the topic run as may, although workers wait",
    given: { ...limited({ topics: { review: { maxRunning: 3 } } }, { topic: 3 }), workers: [inGpu] },
    because: "topic_full",
    detail: /^3 jobs of topic review run, and 3 may/,
  },
  {
    what: "the only pool with workers for it is full",
    given: { ...limited({ pools: { gpu: { maxRunning: 2 } } }, { pool: 2 }), workers: [inGpu] },
    because: "pool_full",
    detail: /^2 jobs run in pool gpu, and 2 may/,
  },
  {
    what: "the only pool with workers for it drains",
    given: { ...limited({ pools: { gpu: { draining: true } } }), workers: [inGpu] },
    because: "pool_draining",
    detail: /^Pool gpu, whose workers could do it, drains/,
  },
  {
    what: "the only pool with workers for it does not have the topic",
    given: { ...limited({ pools: { gpu: { topics: ["train"] } } }), workers: [inGpu] },
    because: "pool_without_topic",
    detail: /restricted to train/,
  },
  {
    what: "one pool drains, and the workers of another are busy",
    given: {
      ...limited({ pools: { gpu: { draining: true } } }),
      workers: [inGpu, worker("w", { ...busy, free: 0 })],
    },
    because: "workers_full",
    detail: /^All 1 workers/,
  },
  {
    what: "limits have room",
    given: { ...limited({ topics: { review: { maxRunning: 3 } } }, { topic: 2 }), workers: [inGpu] },
    because: "being_offered",
    detail: /free place/,
  },
  {
    what: "the tenant is stopped, although workers wait",
    given: {
      slots: { kind: "known", value: { active: 1, stopped: true } },
      workers: [worker("w-1", { free: 1 })],
    },
    because: "tenant_stopped",
    detail: /stopped/,
  },
  {
    what: "the run is being cancelled",
    given: { header: { ...header, cancelRequested: "c" }, workers: [worker("w-1", { free: 1 })] },
    because: "run_cancelling",
    detail: /cancelled/,
  },
  {
    what: "nobody asks for the topic",
    given: { workers: [worker("w-1", { topics: ["other"], free: 3 })] },
    because: "no_worker_for_topic",
    detail: /as seen by this process \(host:1\)/,
  },
  {
    what: "the nearest worker lacks one capability",
    given: {
      requires,
      workers: [
        worker("far", { free: 1 }),
        worker("near", { labels: { zone: "eu" }, capabilities: ["gpu"], free: 1 }),
      ],
    },
    because: "capability_missing",
    detail: /near comes nearest and lacks the capability ocr/,
  },
  {
    what: "only a label has another value",
    given: {
      requires,
      workers: [worker("us", { labels: { zone: "us" }, capabilities: ["gpu", "ocr"], free: 1 })],
    },
    because: "label_missing",
    detail: /lacks the label zone=eu/,
  },
  {
    what: "the one worker that fits is full, though another has places",
    given: {
      requires,
      workers: [
        worker("fit", { labels: { zone: "eu" }, capabilities: ["gpu", "ocr"], ...busy }),
        worker("free", { free: 5 }),
      ],
    },
    because: "workers_full",
    detail: /All 1 workers/,
  },
  {
    what: "all places of the waiting polls are promised",
    given: { workers: [worker("w-1", { free: 0 }), worker("w-2", busy)] },
    because: "workers_full",
    detail: /All 2 workers/,
  },
  {
    what: "the workers have been silent for a while",
    given: { workers: [worker("w-1", { lastSeenMsAgo: 60_000 })] },
    because: "workers_not_polling",
    detail: /do not ask for jobs now/,
  },
  {
    what: "a worker is between two polls",
    given: { workers: [worker("w-1"), worker("w-2", busy)] },
    because: "being_offered",
    detail: /between two polls/,
  },
  {
    what: "a worker has a free place",
    given: { workers: [worker("w-1", busy), worker("w-2", { free: 1 })] },
    because: "being_offered",
    detail: /free place/,
  },
];

function ask({ requires: needed, ...given }: Given) {
  const facts: LiveRunFacts = {
    header,
    nowMs: 10,
    slots: { kind: "known", value: { active: 1, stopped: false } },
    lock: { kind: "known", value: { kind: "free" } },
    steps: [],
    workers: [],
    instance: "host:1",
    unanswered: [],
    ...given,
  };
  return whyUnclaimed(facts, needed === undefined ? job : { ...job, requires: needed });
}

describe("no worker takes a job because", () => {
  test.each(cases)("$what", ({ given, because, detail }) => {
    const item = ask(given);
    expect(item.because).toBe(because);
    expect(item.detail).toMatch(detail);
    expect(item.what_to_do.length).toBeGreaterThan(10);
  });

  test("its workers lack something: which ones, and what the nearest is missing", () => {
    const item = ask({
      requires,
      workers: [worker("far"), worker("near", { labels: { zone: "eu" }, capabilities: ["gpu"] })],
    });
    expect(item.missing_capabilities).toEqual(["ocr"]);
    expect(item).not.toHaveProperty("missing_labels");
    expect(item.workers).toMatchObject([
      { worker_id: "near", missing_capabilities: ["ocr"] },
      { worker_id: "far", missing_capabilities: ["gpu", "ocr"], missing_labels: { zone: "eu" } },
    ]);
  });

  test("all are full: who does what is told, of at most five", () => {
    const many = Array.from({ length: 9 }, (_, index) => worker(`w-${index}`, busy));
    const item = ask({ workers: many });
    expect(item.workers).toHaveLength(5);
    expect(item.workers[0]).toMatchObject({ worker_id: "w-0", running: 1, jobs: [`${runId}:b@1`] });
  });

  test("the topic was mistyped: topics with workers that are spelt nearly so are named", () => {
    const item = ask({ workers: [worker("w-1", { topics: ["reveiw", "review-de", "billing"] })] });
    expect(item.similar_topics).toEqual(["reveiw", "review-de"]);
  });

  test("its kill switch is not known: that is not taken for on", () => {
    const item = ask({ slots: { kind: "unanswered" }, workers: [worker("w-1", { free: 1 })] });
    expect(item.because).toBe("being_offered");
  });
});

describe("similar topics", () => {
  test("are few, near, and never the topic itself", () => {
    expect(similarTopics("mail", ["mail", "mial", "Mail", "nail", "rain", "warehouse"])).toEqual([
      "Mail",
      "mial",
      "nail",
    ]);
    expect(similarTopics("a", ["b", "abc"])).toEqual(["b"]);
    expect(similarTopics("x", [])).toEqual([]);
  });
});

test("a worker fits exactly when nothing is missing", () => {
  const names = fc.uniqueArray(fc.constantFrom("a", "b", "c"));
  const labels = fc.dictionary(fc.constantFrom("x", "y"), fc.constantFrom("1", "2"));
  fc.assert(
    fc.property(names, labels, names, labels, (capabilities, wanted, offered, has) => {
      const text = JSON.stringify({ capabilities, labels: wanted });
      const lacking = missingRequirements(text, { capabilities: offered, labels: has });
      const isWhole = lacking.capabilities.length === 0 && Object.keys(lacking.labels).length === 0;
      expect(fitsRequirements(text, { capabilities: offered, labels: has })).toBe(isWhole);
    }),
  );
});

describe("of many open steps", () => {
  const open = (stepId: string, startedAtMs: number, waitingFor?: "approval" | "retry") => ({
    stepId,
    record: {
      status: "running",
      attempt: 1,
      startedAtMs,
      ...(waitingFor === undefined ? {} : { waitingFor }),
    } as StepRecord,
  });

  test("some of every kind are looked at, those that wait longest first", () => {
    const jobs = Array.from({ length: 100 }, (_, index) => open(`j${index}`, 1_000 - index));
    const chosen = chooseSteps([...jobs, open("ok", 5_000, "approval"), open("again", 4_000, "retry")], 5);
    expect(chosen.map(({ stepId }) => stepId)).toEqual(["j99", "again", "ok", "j98", "j97"]);
  });

  test("all are looked at when they are few", () => {
    expect(chooseSteps([open("a", 2), open("b", 1)], 24)).toHaveLength(2);
    expect(chooseSteps([], 24)).toEqual([]);
  });
});
