// The rows of steps that begin others: parallel, loop and subworkflow.
import { expect } from "vitest";
import { PermanentFailure } from "../../src/control/jobs/in-process-worker.ts";
import type { RunId } from "../../src/domain/run.ts";
import { type Row, soon, work } from "./step-types-table.ts";
import { type Ended, type Scene, type Steps, until, type Work } from "./step-types-world.ts";

/** Gives what the step is named and what it got. */
const echo: Work = ({ step, input }) => ({ step, input });

function breaks(broken: string, others: Work): Work {
  return (job, life) => {
    if (job.step === broken) throw new PermanentFailure("it broke");
    return others(job, life);
  };
}

function failsOnce(broken: string, others: Work): Work {
  return (job, life) => {
    if (job.step === broken && job.attempt === 1) throw new Error("not yet");
    return others(job, life);
  };
}

const after = work({ depends_on: ["it"] });

const parallel = (more: Steps[string] = {}, a: Steps[string] = {}): Steps => ({
  it: { type: "parallel", input: { steps: ["a", "b"] }, ...more },
  a: work({ input: { n: 1 }, ...a }),
  b: work({ input: { n: 2 } }),
  after,
});

export const parallelRow: Row = {
  success: {
    shows: "its children run side by side, and it ends with all of them",
    steps: parallel(),
    work: () => echo,
    ends: {
      status: "succeeded",
      steps: { it: "succeeded", a: "succeeded", b: "succeeded", after: "succeeded" },
      outputs: {
        it: {
          a: { status: "succeeded", output: { step: "a", input: { n: 1 } } },
          b: { status: "succeeded", output: { step: "b", input: { n: 2 } } },
        },
      },
      timeline: ["step_children_started it", "step_dispatched a", "step_dispatched b", "step_completed it"],
    },
  },
  failure: {
    shows: "a child that fails takes the others back",
    steps: parallel(),
    work: (scene) => breaks("a", (job) => scene.hang(job)),
    ends: {
      status: "failed",
      steps: { it: "failed", a: "failed", b: "cancelled", after: "skipped" },
      errors: { it: "child_failed", a: "it broke" },
      timeline: ["step_failed a", "step_failed it", "step_cancelled b"],
    },
  },
  retry: {
    shows: "a child is tried again by its own policy, while the parallel step waits",
    steps: parallel({ retry: { max_retries: 9 } }, { retry: soon }),
    work: () => failsOnce("a", echo),
    ends: {
      status: "succeeded",
      steps: { it: "succeeded", a: "succeeded", b: "succeeded", after: "succeeded" },
      attempts: { it: 1, a: 2, b: 1 },
      timeline: ["step_retry_scheduled a", "step_completed it"],
      never: ["step_retry_scheduled it"],
    },
  },
  timeout: {
    shows: "when its time is over it takes back what it has begun",
    steps: parallel({ timeout_sec: 2 }),
    work: (scene) => (job) => (job.step === "a" ? null : scene.hang(job)),
    ends: {
      status: "timed_out",
      steps: { it: "timed_out", a: "succeeded", b: "cancelled", after: "skipped" },
      errors: { it: "step_timed_out" },
      timeline: ["step_completed a", "step_timed_out it", "step_cancelled b"],
    },
  },
  cancel: {
    shows: "a cancelled run takes its children back",
    steps: parallel(),
    work: (scene) => (job) => (job.step === "a" ? null : scene.hang(job)),
    script: async (scene, runId) => {
      await scene.reaches(runId, "a", "succeeded");
      await scene.cancel(runId);
    },
    ends: {
      status: "cancelled",
      steps: { it: "cancelled", a: "succeeded", b: "cancelled", after: "cancelled" },
    },
  },
  restart: {
    shows: "a child that is done stays done, the other follows in the next process",
    steps: parallel(),
    work: (scene) => (job, life) => (life === 1 && job.step === "b" ? scene.hang(job) : echo(job, life)),
    middle: async (scene, runId) => {
      await scene.reaches(runId, "a", "succeeded");
      await scene.reaches(runId, "b", "running");
    },
    ends: {
      status: "succeeded",
      steps: { it: "succeeded", a: "succeeded", b: "succeeded", after: "succeeded" },
      attempts: { it: 1, a: 1 },
      timeline: ["step_completed a", "step_claim_lost b", "step_completed b", "step_completed it"],
    },
  },
};

const loop = (input: Steps[string] = {}, body: Steps[string] = {}, more: Steps[string] = {}): Steps => ({
  it: { type: "loop", input: { body: "body", max_iterations: 3, ...input }, ...more },
  body: work({ input: { turn: "${loop.iteration}" }, ...body }),
  after,
});

/** Gives the iteration that it was asked for. */
const turn: Work = ({ input }) => input;

export const loopRow: Row = {
  success: {
    shows: "it repeats its body until it is told to stop, and gives what the last iteration gave",
    steps: loop({ until: "loop.last_output.turn == 2", max_iterations: 9 }),
    work: () => turn,
    ends: {
      status: "succeeded",
      steps: { it: "succeeded", body: "succeeded", after: "succeeded" },
      outputs: { it: { iterations: 2, last_output: { turn: 2 } }, body: { turn: 2 } },
      attempts: { body: 2 },
      timeline: [
        "step_loop_iteration it",
        "step_completed body",
        "step_loop_iteration it",
        "step_completed it",
      ],
    },
  },
  failure: {
    shows: "a body that fails ends it, also when iterations are left",
    steps: loop(),
    work: () => (job, life) => {
      if (job.attempt === 2) throw new PermanentFailure("it broke");
      return turn(job, life);
    },
    ends: {
      status: "failed",
      steps: { it: "failed", body: "failed", after: "skipped" },
      errors: { it: "child_failed", body: "it broke" },
      attempts: { body: 2 },
    },
  },
  retry: {
    shows: "its body is tried again by its own policy, within the same iteration",
    steps: loop({ max_iterations: 2 }, { retry: soon }, { retry: { max_retries: 9 } }),
    work: () => failsOnce("body", turn),
    ends: {
      status: "succeeded",
      steps: { it: "succeeded", body: "succeeded", after: "succeeded" },
      outputs: { it: { iterations: 2, last_output: { turn: 2 } } },
      attempts: { it: 1, body: 3 },
      never: ["step_retry_scheduled it"],
    },
  },
  timeout: {
    shows: "when its time is over it takes its body back, in whatever iteration",
    steps: loop({}, {}, { timeout_sec: 2 }),
    work: (scene) => (job, life) => (job.attempt === 1 ? turn(job, life) : scene.hang(job)),
    ends: {
      status: "timed_out",
      steps: { it: "timed_out", body: "cancelled", after: "skipped" },
      errors: { it: "step_timed_out" },
      attempts: { body: 2 },
    },
  },
  cancel: {
    shows: "a cancelled run takes its body back, and no iteration follows",
    steps: loop(),
    work: (scene) => (job, life) => (job.attempt === 1 ? turn(job, life) : scene.hang(job)),
    script: async (scene, runId) => {
      await secondTurn(scene, runId);
      await scene.cancel(runId);
    },
    ends: {
      status: "cancelled",
      steps: { it: "cancelled", body: "cancelled", after: "cancelled" },
      attempts: { body: 2 },
    },
  },
  restart: {
    shows: "it goes on in the iteration in which its process died",
    steps: loop(),
    work: (scene) => (job, life) => (life === 1 && job.attempt > 1 ? scene.hang(job) : turn(job, life)),
    middle: (scene, runId) => secondTurn(scene, runId),
    ends: {
      status: "succeeded",
      steps: { it: "succeeded", body: "succeeded", after: "succeeded" },
      outputs: { it: { iterations: 3, last_output: { turn: 3 } } },
      timeline: ["step_completed body", "step_claim_lost body", "step_completed body", "step_completed body"],
      more: async (_, { commits }) => {
        const turns = commits.flat().filter(({ type }) => type === "step_loop_iteration");
        expect(turns.map(({ iteration }) => iteration)).toEqual([1, 2, 3]);
      },
    },
  },
};

async function secondTurn(scene: Scene, runId: RunId): Promise<void> {
  await until("the second iteration", async () => {
    const { attempt, status } = await scene.step(runId, "body");
    return attempt === 2 && status === "running" ? true : undefined;
  });
}

const mapped = {
  workflow_id: "child",
  input_mapping: { n: "${input.n}" },
  output_mapping: { run: "${child.run_id}", sum: "${child.output.n + child.steps.first.output.n}" },
};
const subworkflow = (more: Steps[string] = {}): Steps => ({
  it: { type: "subworkflow", input: { workflow_id: "child" }, ...more },
  after,
});
const child: Steps = { first: work(), last: work({ depends_on: ["first"] }) };

/** The runs that the step has started, in the order of its attempts. */
function childrenOf({ commits }: Ended): readonly RunId[] {
  return commits
    .flat()
    .filter(({ type }) => type === "step_subworkflow_started")
    .map(({ child_run_id }) => String(child_run_id) as RunId);
}

async function expectChildren(scene: Scene, ended: Ended, statuses: readonly string[]): Promise<void> {
  const runs = childrenOf(ended);
  expect(new Set(runs).size).toBe(runs.length);
  const seen = await Promise.all(runs.map(async (runId) => (await scene.ended(runId)).status));
  expect(seen).toEqual(statuses);
  const listed = await scene.api.listRuns({ tenant: scene.tenant, limit: 100 });
  if (listed.kind !== "listed") throw new Error(listed.kind);
  expect(listed.runs).toHaveLength(1 + runs.length);
}

export const subworkflowRow: Row = {
  success: {
    shows: "it starts a run of another workflow, and its output is what the mapping makes of that run",
    steps: subworkflow({ input: mapped }),
    others: { child },
    input: { n: 7, other: "not passed on" },
    ends: {
      status: "succeeded",
      steps: { it: "succeeded", after: "succeeded" },
      attempts: { it: 1 },
      timeline: ["step_subworkflow_started it", "step_completed it", "step_dispatched after"],
      more: async (scene, ended) => {
        const [run] = childrenOf(ended);
        expect(ended.steps.it?.output).toEqual({ run, sum: 14 });
        await expectChildren(scene, ended, ["succeeded"]);
      },
    },
  },
  failure: {
    shows: "a run that fails fails the step that started it",
    steps: subworkflow(),
    others: { child },
    work: () => breaks("first", echo),
    ends: {
      status: "failed",
      steps: { it: "failed", after: "skipped" },
      errors: { it: "child_run_ended" },
      more: (scene, ended) => expectChildren(scene, ended, ["failed"]),
    },
  },
  retry: {
    shows: "every attempt starts a run of its own",
    steps: subworkflow({ retry: soon }),
    others: { child },
    work: () => {
      const runs = new Set<string>();
      return (job, life) => {
        runs.add(job.jobId.split(":")[0] ?? "");
        if (job.step === "first" && runs.size < 3) throw new PermanentFailure("it broke");
        return echo(job, life);
      };
    },
    ends: {
      status: "succeeded",
      steps: { it: "succeeded", after: "succeeded" },
      attempts: { it: 3 },
      timeline: ["step_subworkflow_started it", "step_retry_scheduled it", "step_completed it"],
      more: (scene, ended) => expectChildren(scene, ended, ["failed", "failed", "succeeded"]),
    },
  },
  timeout: {
    shows: "when its time is over it calls the run off",
    steps: subworkflow({ timeout_sec: 0.4 }),
    others: { child },
    work: (scene) => (job) => scene.hang(job),
    ends: {
      status: "timed_out",
      steps: { it: "timed_out", after: "skipped" },
      errors: { it: "step_timed_out" },
      more: (scene, ended) => expectChildren(scene, ended, ["cancelled"]),
    },
  },
  cancel: {
    shows: "a cancelled run cancels the runs that it has started",
    steps: subworkflow(),
    others: { child },
    work: (scene) => (job) => scene.hang(job),
    script: async (scene, runId) => {
      await scene.reaches(await scene.childOf(runId, "it"), "first", "running");
      await scene.cancel(runId);
    },
    ends: {
      status: "cancelled",
      steps: { it: "cancelled", after: "cancelled" },
      more: (scene, ended) => expectChildren(scene, ended, ["cancelled"]),
    },
  },
  restart: {
    shows: "the run that it started goes on in the next process, and no second one is started",
    steps: subworkflow(),
    others: { child },
    work: (scene) => (job, life) => (life === 1 && job.step === "last" ? scene.hang(job) : echo(job, life)),
    middle: async (scene, runId) => scene.reaches(await scene.childOf(runId, "it"), "last", "running"),
    ends: {
      status: "succeeded",
      steps: { it: "succeeded", after: "succeeded" },
      attempts: { it: 1 },
      more: async (scene, ended) => {
        await expectChildren(scene, ended, ["succeeded"]);
        const [run] = childrenOf(ended);
        expect((await scene.ended(run as RunId)).steps.first?.attempts).toBe(1);
      },
    },
  },
};
