// What a process remembers of runs, jobs and workers, as rows of a table; and the end that work must come to whatever has failed.
import { expect } from "vitest";
import type { ClaimedJob } from "../../src/control/jobs/offers.ts";
import type { PollAnswer } from "../../src/control/jobs/poll-jobs.ts";
import type { Fingerprint } from "../../src/domain/fingerprint.ts";
import type { RunId } from "../../src/domain/run.ts";
import type { OperationName, RequestOf } from "../../src/ports/store.ts";
import {
  ann,
  ben,
  type FlowPlane,
  type FlowWorld,
  only,
  pollOf,
  type Steps,
  work,
  workerCaller,
} from "./flow-world.ts";

/** `p` remembers and fails; `q` is another process. */
export type WorkScene = {
  readonly flow: FlowWorld;
  readonly p: FlowPlane;
  readonly q: FlowPlane;
  /** By step: got, and not reported yet. */
  readonly jobs: Map<string, ClaimedJob>;
  /** Polls that were waiting when something failed. */
  readonly polls: Promise<PollAnswer>[];
};

export type WorkRow = {
  readonly call: OperationName;
  arrange(scene: WorkScene): Promise<void>;
  act(scene: WorkScene): Promise<unknown>;
  other(scene: WorkScene): Promise<unknown>;
  /** Done once more it begins a job, and a worker waits for one. */
  readonly givesJob?: true;
};

/** Steps side by side, one that reads both, and whatever else a commit can begin. */
const steps: Steps = {
  ...{ a: work(), b: work() },
  both: work({
    depends_on: ["a", "b"],
    condition: "steps.a.output == 'a' && steps.b.output == 'b'",
    input: { a: "${steps.a.output}", b: "${steps.b.output}" },
  }),
  nap: { type: "delay", delay_sec: 30, depends_on: ["both"] },
  ok: { type: "approval", depends_on: ["nap"] },
  last: work({ depends_on: ["ok"], input: { of: "last" } }),
};

export async function begin(scene: WorkScene): Promise<void> {
  await scene.p.save("w", steps);
}

async function startRun({ flow, p }: WorkScene, key = "first") {
  const named = { text: key, fingerprint: "f" as Fingerprint };
  return flow.finish(p.api.startWorkflow({ caller: ann, workflow: "w", input: {}, key: named }));
}

/** Takes what waits, without working on it. */
async function take({ flow, jobs }: WorkScene, plane: FlowPlane): Promise<void> {
  const answer = await flow.finish(plane.api.pollJobs(pollOf({ leaseMs: 20_000, waitMs: 100 })));
  if (answer.kind === "jobs") for (const job of answer.jobs) jobs.set(job.job.step, job);
}

function report({ jobs }: WorkScene, plane: FlowPlane, step: string) {
  const held = jobs.get(step);
  if (held === undefined) return Promise.resolve({ kind: "no job" });
  const { job, token } = held;
  return plane.api.reportResult({
    ...{ caller: workerCaller, jobId: job.jobId, token },
    ...{ outcome: "succeeded", output: step },
  });
}

async function running(scene: WorkScene): Promise<void> {
  only(await startRun(scene), "admitted");
  while (scene.jobs.size < 2) await take(scene, scene.p);
}

/** A worker with one place waits while something happens: its place is promised with the commit. */
function wait({ p, polls }: WorkScene): void {
  polls.push(p.api.pollJobs(pollOf({ worker: "waits", places: 1, waitMs: 60_000, leaseMs: 20_000 })));
}

const runOf = (scene: WorkScene): RunId => scene.jobs.get("a")?.job.runId as RunId;

const result: WorkRow = {
  call: "deliver",
  async arrange(scene) {
    await running(scene);
    wait(scene);
    await scene.flow.pass(1);
  },
  act: (scene) => report(scene, scene.p, "a"),
  other: (scene) => report(scene, scene.q, "b"),
};

export const workRows: Readonly<Record<string, WorkRow>> = {
  "a result that was decided in advance": result,
  "the second result, after which a step begins": {
    ...result,
    givesJob: true,
    async arrange(scene) {
      await result.arrange(scene);
      await scene.flow.finish(report(scene, scene.p, "b") as Promise<unknown>);
    },
    other: ({ flow, p, q }) => flow.open(`other than ${p.member.process.name} and ${q.member.process.name}`),
  },
  "two results at once, of which the run's owner commits one": {
    ...result,
    call: "commit",
    act: (scene) => Promise.all([report(scene, scene.p, "a"), report(scene, scene.p, "b")]),
    other: (scene) => report(scene, scene.q, "b"),
  },
  "an admission with a promised place": {
    call: "admit",
    givesJob: true,
    async arrange(scene) {
      wait(scene);
      await scene.flow.pass(1);
    },
    act: (scene) => startRun(scene),
    other: ({ q }) => q.api.startWorkflow({ caller: ben, workflow: "w", input: {} }),
  },
  "a claim of jobs that were matched": {
    call: "claimJobs",
    arrange: async (scene) => void only(await startRun(scene), "admitted"),
    act: (scene) => take(scene, scene.p),
    other: (scene) => take(scene, scene.q),
  },
  "a cancel": {
    ...result,
    act: (scene) => scene.p.api.cancelRun({ caller: ann, runId: runOf(scene), reason: "no" }),
  },
};

/** What had no effect is done again: the worker that has waited all the time gets the job, since nothing is promised any more. */
export async function expectPlaceFree(scene: WorkScene, row: WorkRow): Promise<void> {
  const { flow, polls, jobs } = scene;
  const startedMs = flow.nowMs();
  await flow.finish(row.act(scene));
  for (const poll of polls.splice(0)) {
    const found = only(await flow.finish(poll), "jobs").jobs;
    expect(found).toHaveLength(1);
    for (const job of found) jobs.set(job.job.step, job);
  }
  expect(flow.nowMs() - startedMs).toBeLessThan(5_000);
}

/** Everybody goes on as after any failure: work is polled and reported, approvals are decided, until every run has ended. */
export async function workOn(scene: WorkScene): Promise<void> {
  const { flow, p, polls, jobs } = scene;
  await startRun(scene);
  for (const poll of polls) {
    const answer = await flow.finish(poll);
    if (answer.kind === "jobs") for (const job of answer.jobs) jobs.set(job.job.step, job);
  }
  for (let turns = 0; turns < 60 && open(flow).length > 0; turns += 1) {
    await take(scene, p);
    for (const step of [...jobs.keys()]) {
      checkInput(jobs.get(step) as ClaimedJob);
      await flow.finish(report(scene, p, step) as Promise<unknown>);
      jobs.delete(step);
    }
    const pending = [...flow.world.records.all("approval")].filter(({ value }) => value.state === "pending");
    for (const { value } of pending) {
      const { approvalId } = value;
      await flow.finish(p.api.decideApproval({ caller: ben, approvalId, decision: "approved" }));
    }
    await flow.pass(3_000);
  }
  expect(open(flow)).toEqual([]);
}

function open(flow: FlowWorld): readonly RunId[] {
  const runs = [...flow.world.records.all("run")].map(({ value }) => value);
  return runs.filter((run) => run.endedAtMs === undefined).map(({ runId }) => runId);
}

function checkInput({ job, input }: ClaimedJob): void {
  if (job.step === "both") expect(JSON.parse(input)).toEqual({ a: "a", b: "b" });
}

/** The process remembers the run again: what is last reported to it is decided before the store is asked, and stands. */
function lastAnswer({ member }: FlowPlane, runId: RunId): string | undefined {
  const results = member.callsOf("deliver").filter(({ request }) => {
    const { entry } = request as RequestOf<"deliver">;
    return entry.kind === "result" && entry.jobId.startsWith(`${runId}:last@`);
  });
  return results.at(-1)?.answer;
}

/** What is stored in the end: each run as if nothing had failed, one run by the key, and nothing left of any of them. */
export async function expectEnds({ flow, p }: WorkScene): Promise<void> {
  const { records } = flow.world;
  for (const { value } of records.all("run")) {
    const { runId } = value;
    const events = await flow.events(runId);
    const isCancelled = value.cancelRequested !== undefined;
    expect(value.status).toBe(isCancelled ? "cancelled" : "succeeded");
    const completed = events.filter((event) => event.startsWith("step_completed"));
    expect(completed).toHaveLength(new Set(completed).size);
    if (!isCancelled) {
      const all = ["a", "b", "both", "last", "nap", "ok"].map((step) => `step_completed ${step}`);
      expect(completed.toSorted()).toEqual(all);
      expect(lastAnswer(p, runId)).toBe("applied");
    }
    expect(events.filter((event) => event.startsWith("run_completed"))).toHaveLength(1);
  }
  const runs = [...records.all("run")].filter(({ value }) => value.actor === "ann");
  expect(runs).toHaveLength(1);
  expect([...records.all("active")]).toEqual([]);
  expect([...records.all("timer")]).toEqual([]);
  expect([...records.all("inbox")]).toEqual([]);
  const live = [...records.all("job")].filter(({ value }) =>
    ["held", "ready", "claimed"].includes(value.state),
  );
  expect(live).toEqual([]);
  // Nothing is promised to anybody any more: a worker with one place gets the next job with the commit that creates it.
  const poll = p.api.pollJobs(pollOf({ worker: "next", places: 1, waitMs: 20_000 }));
  await flow.pass(5);
  const before = p.member.callsOf("claimJobs").length;
  await p.save("next", { a: work() });
  const next = await p.start("next");
  expect(only(await flow.finish(poll), "jobs").jobs.map(({ job }) => job.runId)).toEqual([next]);
  expect(p.member.callsOf("claimJobs")).toHaveLength(before);
}
