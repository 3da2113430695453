// The rows of steps that workers do: worker, worker with for_each, and notify.
import { expect } from "vitest";
import { PermanentFailure } from "../../src/control/jobs/in-process-worker.ts";
import type { JobId } from "../../src/domain/job.ts";
import type { RunId } from "../../src/domain/run.ts";
import { type Row, soon, work } from "./step-types-table.ts";
import type { Scene, Steps, Work } from "./step-types-world.ts";

/** Fails so often, and then gives its attempt. */
function failing(times: number): Work {
  return ({ attempt }) => {
    if (attempt <= times) throw new Error("not yet");
    return { attempt };
  };
}

const broken: Work = () => {
  throw new PermanentFailure("it broke");
};

/** The first process takes the job and never ends it. */
const onlyInNextLife = (scene: Scene): Work => {
  return (job, life) => (life === 1 ? scene.hang(job) : job.input);
};

async function cancelWhile(scene: Scene, runId: RunId, step: string): Promise<void> {
  await scene.reaches(runId, step, "running");
  await scene.cancel(runId);
}

async function expectJob(scene: Scene, jobId: string, state: string): Promise<void> {
  expect(await scene.api.getJob({ tenant: scene.tenant, jobId: jobId as JobId })).toMatchObject({
    kind: "job",
    job: { state },
  });
}

const workerSteps: Steps = { it: work({ input: { n: 7 } }), after: work({ depends_on: ["it"] }) };

export const workerRow: Row = {
  success: {
    shows: "the worker's result is its output",
    steps: workerSteps,
    ends: {
      status: "succeeded",
      steps: { it: "succeeded", after: "succeeded" },
      outputs: { it: { n: 7 } },
      attempts: { it: 1 },
      timeline: ["run_started", "step_dispatched it", "step_completed it", "step_completed after"],
    },
  },
  failure: {
    shows: "a failure for good is not tried again, and what depends on it is skipped",
    steps: { it: work({ retry: soon }), after: work({ depends_on: ["it"] }) },
    work: () => broken,
    ends: {
      status: "failed",
      steps: { it: "failed", after: "skipped" },
      attempts: { it: 1 },
      errors: { it: "it broke" },
      never: ["step_retry_scheduled it"],
    },
  },
  retry: {
    shows: "a failure is tried again until it succeeds",
    steps: { it: work({ retry: soon }), after: work({ depends_on: ["it"] }) },
    work: () => (job, life) => (job.step === "it" ? failing(2)(job, life) : null),
    ends: {
      status: "succeeded",
      steps: { it: "succeeded", after: "succeeded" },
      outputs: { it: { attempt: 3 } },
      attempts: { it: 3, after: 1 },
      timeline: ["step_retry_scheduled it", "step_retry_scheduled it", "step_completed it"],
    },
  },
  timeout: {
    shows: "without a result in time it ends, and its job is called off",
    steps: { it: work({ timeout_sec: 0.15 }), after: work({ depends_on: ["it"] }) },
    work: (scene) => (job) => scene.hang(job),
    ends: {
      status: "timed_out",
      steps: { it: "timed_out", after: "skipped" },
      errors: { it: "step_timed_out" },
      more: (scene, { run_id }) => expectJob(scene, `${run_id}:it@1`, "voided"),
    },
  },
  cancel: {
    shows: "a cancelled run calls its job off",
    steps: workerSteps,
    work: (scene) => (job) => scene.hang(job),
    script: (scene, runId) => cancelWhile(scene, runId, "it"),
    ends: {
      status: "cancelled",
      steps: { it: "cancelled", after: "cancelled" },
      more: (scene, { run_id }) => expectJob(scene, `${run_id}:it@1`, "voided"),
    },
  },
  restart: {
    shows: "a job whose worker died is done by the next attempt",
    steps: workerSteps,
    work: onlyInNextLife,
    middle: (scene, runId) => scene.reaches(runId, "it", "running"),
    ends: {
      status: "succeeded",
      steps: { it: "succeeded", after: "succeeded" },
      outputs: { it: { n: 7 } },
      timeline: ["step_claim_lost it", "step_dispatched it", "step_completed it"],
      more: (scene, { run_id }) => expectJob(scene, `${run_id}:it@1`, "lost"),
    },
  },
};

const items = { items: ["a", "b", "c"] };
const forEach = (more: Steps[string] = {}): Steps => ({
  it: work({ for_each: "input.items", input: { item: "${item}", index: "${index}" }, ...more }),
  after: work({ depends_on: ["it"], input: { got: "${steps.it.output}" } }),
});

export const forEachRow: Row = {
  success: {
    shows: "there is a job for every item, and the outputs stand in the order of the items",
    steps: forEach(),
    input: items,
    ends: {
      status: "succeeded",
      steps: { it: "succeeded", after: "succeeded" },
      outputs: {
        it: [
          { item: "a", index: 0 },
          { item: "b", index: 1 },
          { item: "c", index: 2 },
        ],
      },
      timeline: ["step_children_started it", "step_completed it", "step_dispatched after"],
    },
  },
  failure: {
    shows: "an item that fails takes its siblings back, and those that have not begun never begin",
    steps: forEach({ max_parallel: 2 }),
    input: items,
    work: (scene) => (job, life) => (job.step === "it[0]" ? scene.hang(job) : broken(job, life)),
    ends: {
      status: "failed",
      steps: { it: "failed", after: "skipped" },
      errors: { it: "child_failed" },
      timeline: ["step_failed it[1]", "step_failed it", "step_cancelled it[0]"],
      never: ["step_dispatched it[2]"],
      more: (scene, { run_id }) => expectJob(scene, `${run_id}:it[0]@1`, "voided"),
    },
  },
  retry: {
    shows: "an item is tried again by itself",
    steps: forEach({ retry: soon }),
    input: items,
    work: () => (job, life) => (job.step === "it[1]" ? failing(2)(job, life) : null),
    ends: {
      status: "succeeded",
      steps: { it: "succeeded", after: "succeeded" },
      outputs: { it: [null, { attempt: 3 }, null] },
      attempts: { it: 1 },
      timeline: ["step_retry_scheduled it[1]", "step_retry_scheduled it[1]", "step_completed it[1]"],
      never: ["step_retry_scheduled it[0]", "step_retry_scheduled it"],
    },
  },
  timeout: {
    shows: "the timeout is that of every item",
    steps: forEach({ timeout_sec: 2 }),
    input: items,
    work: (scene) => (job) => (job.step === "it[2]" ? scene.hang(job) : null),
    ends: {
      status: "timed_out",
      steps: { it: "timed_out", after: "skipped" },
      errors: { it: "child_failed" },
      timeline: ["step_completed it[0]", "step_timed_out it[2]", "step_timed_out it"],
    },
  },
  cancel: {
    shows: "a cancelled run calls the jobs of all open items off",
    steps: forEach(),
    input: items,
    work: (scene) => (job) => (job.step === "it[0]" ? null : scene.hang(job)),
    script: async (scene, runId) => {
      await scene.reaches(runId, "it[0]", "succeeded");
      await scene.cancel(runId);
    },
    ends: {
      status: "cancelled",
      steps: { it: "cancelled", after: "cancelled" },
      timeline: ["run_cancelled", "step_cancelled it"],
      never: ["step_cancelled it[0]"],
      more: async (scene, { run_id }) => {
        await expectJob(scene, `${run_id}:it[1]@1`, "voided");
        await expectJob(scene, `${run_id}:it[2]@1`, "voided");
      },
    },
  },
  restart: {
    shows: "items that are done stay done, the others follow in the next process",
    steps: forEach({ max_parallel: 2 }),
    input: items,
    work: (scene) => (job, life) => (life === 1 && job.step !== "it[0]" ? scene.hang(job) : job.input),
    middle: async (scene, runId) => {
      await scene.reaches(runId, "it[0]", "succeeded");
      await scene.reaches(runId, "it[2]", "running");
    },
    ends: {
      status: "succeeded",
      steps: { it: "succeeded", after: "succeeded" },
      outputs: {
        it: [
          { item: "a", index: 0 },
          { item: "b", index: 1 },
          { item: "c", index: 2 },
        ],
      },
      never: ["step_claim_lost it[0]"],
      more: async (_, { commits }) => {
        const done = commits.flat().filter(({ type, step }) => type === "step_completed" && step === "it[0]");
        expect(done).toHaveLength(1);
      },
    },
  },
};

const notice = { level: "warn", message: "about ${input.what}" };
const byWorker: Steps = {
  it: { type: "notify", topic: "work", input: notice },
  after: work({ depends_on: ["it"] }),
};
const about = { what: "lunch" };

export const notifyRow: Row = {
  success: {
    shows: "without a topic the control plane does it, and anyone who watches the run sees what it says",
    steps: { it: { type: "notify", input: notice }, after: work({ depends_on: ["it"] }) },
    input: about,
    ends: {
      status: "succeeded",
      steps: { it: "succeeded", after: "succeeded" },
      outputs: { it: { notified: true } },
      timeline: ["step_event_emitted it", "step_completed it"],
      more: async (_, { commits }) => {
        const said = commits.flat().find(({ type }) => type === "step_event_emitted");
        expect(said).toMatchObject({ level: "warn", message: "about lunch" });
      },
    },
  },
  failure: {
    shows: "a worker that cannot pass it on for good fails it",
    steps: byWorker,
    input: about,
    work: () => broken,
    ends: {
      status: "failed",
      steps: { it: "failed", after: "skipped" },
      errors: { it: "it broke" },
    },
  },
  retry: {
    shows: "a worker that cannot pass it on now is asked again",
    steps: { it: { type: "notify", topic: "work", input: notice, retry: soon } },
    input: about,
    work: () => failing(1),
    ends: {
      status: "succeeded",
      steps: { it: "succeeded" },
      attempts: { it: 2 },
      timeline: ["step_event_emitted it", "step_retry_scheduled it", "step_completed it"],
    },
  },
  timeout: {
    shows: "when nobody passes it on in time it ends",
    steps: { it: { type: "notify", topic: "nobody.here", input: notice, timeout_sec: 0.15 } },
    input: about,
    ends: {
      status: "timed_out",
      steps: { it: "timed_out" },
      errors: { it: "step_timed_out" },
      more: (scene) => scene.expectNothingOpen(["nobody.here"]),
    },
  },
  cancel: {
    shows: "a cancelled run calls its job off",
    steps: byWorker,
    input: about,
    work: (scene) => (job) => scene.hang(job),
    script: (scene, runId) => cancelWhile(scene, runId, "it"),
    ends: {
      status: "cancelled",
      steps: { it: "cancelled", after: "cancelled" },
      more: (scene, { run_id }) => expectJob(scene, `${run_id}:it@1`, "voided"),
    },
  },
  restart: {
    shows: "the next attempt passes the same message on",
    steps: byWorker,
    input: about,
    work: onlyInNextLife,
    middle: (scene, runId) => scene.reaches(runId, "it", "running"),
    ends: {
      status: "succeeded",
      steps: { it: "succeeded", after: "succeeded" },
      outputs: { it: { level: "warn", message: "about lunch" } },
      timeline: ["step_claim_lost it", "step_completed it"],
    },
  },
};
