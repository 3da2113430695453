// Why a run that has not ended does not move: every kind of waiting, from facts alone.
import { describe, expect, test } from "vitest";
import type { Approval, ApprovalId } from "../../src/domain/approval.ts";
import type { StepRecord } from "../../src/domain/engine/records.ts";
import type { ClaimToken, Job, JobId } from "../../src/domain/job.ts";
import type { Fence } from "../../src/domain/lock.ts";
import type { RunHeader, RunId } from "../../src/domain/run.ts";
import type { TenantId } from "../../src/domain/tenant.ts";
import { explainLiveRun, itemsMax } from "../../src/domain/why/explain-run.ts";
import type { LiveRunFacts, Part, StepFacts, Waiting } from "../../src/domain/why/explanation.ts";

const runId = "run_07_0123456789abcdef" as RunId;
const jobId = `${runId}:a@1` as JobId;
const nowMs = 1_800_000_000_000;
const known = <Value>(value: Value): Part<Value> => ({ kind: "known", value });

const header: RunHeader = {
  runId,
  tenant: "acme" as TenantId,
  workflow: "w",
  definition: "d",
  status: "running",
  version: 3,
  actor: "ann",
  admittedAtMs: nowMs - 60_000,
  updatedAtMs: nowMs - 30_000,
};

const facts: LiveRunFacts = {
  header,
  nowMs,
  run: { counts: { running: 1 }, startedAtMs: nowMs - 60_000 },
  slots: known({ active: 1, limit: 5, stopped: false }),
  lock: known({ kind: "free" }),
  steps: [],
  workers: [],
  instance: "host:1",
  unanswered: [],
};

const job: Job = {
  jobId,
  runId,
  step: "a",
  attempt: 1,
  topic: "t",
  inputKey: "job-input/a@1",
  state: "ready",
  createdAtMs: nowMs - 20_000,
  republished: 2,
};

const claim = {
  token: "secret" as ClaimToken,
  worker: "w-1",
  fence: 1 as Fence,
  claimedAtMs: nowMs - 10_000,
  expiresAtMs: nowMs + 5_000,
};

const approval: Approval = {
  approvalId: `${runId}:ok@1` as ApprovalId,
  runId,
  step: "ok",
  hash: "h",
  payloadKey: "approval/ok@1",
  requester: "ann",
  separateDuties: true,
  state: "pending",
  requestedAtMs: nowMs - 9_000,
  expiresAtMs: nowMs + 9_000,
};

const running: StepRecord = { status: "running", attempt: 1, startedAtMs: nowMs - 20_000 };
const step = (more: Partial<StepFacts> = {}): StepFacts => ({ stepId: "a", record: running, ...more });
const waiting = (waitingFor: NonNullable<StepRecord["waitingFor"]>, more: Partial<StepRecord> = {}) =>
  ({ status: "waiting", attempt: 1, waitingFor, startedAtMs: nowMs - 20_000, ...more }) satisfies StepRecord;

const child = "run_07_fedcba9876543210" as RunId;

type Case = {
  readonly what: string;
  readonly given: Partial<LiveRunFacts>;
  readonly first: Partial<Waiting> & { readonly [field: string]: unknown };
  readonly says: RegExp;
};

const cases: readonly Case[] = [
  {
    what: "an approval says who may decide, until when and where",
    given: { steps: [step({ stepId: "ok", record: waiting("approval"), approval: known(approval) })] },
    first: {
      kind: "approval",
      step_id: "ok",
      requested_by: "ann",
      since: "2027-01-15T07:59:51.000Z",
      expires_at: "2027-01-15T08:00:09.000Z",
      may_decide:
        "keys of role approver, operator or admin, but not ann, who asked for the run, nor a key of the same owner or of its maker",
      path: "/api/v1/approvals/run_07_0123456789abcdef%3Aok%401/context",
    },
    says: /Step ok has been waiting for an approval since/,
  },
  {
    what: "an approval without separate duties may be decided by the person who asked, too",
    given: {
      steps: [step({ record: waiting("approval"), approval: known({ ...approval, separateDuties: false }) })],
    },
    first: { kind: "approval", may_decide: "keys of role approver, operator or admin" },
    says: /approval/,
  },
  {
    what: "a decision that was made and not applied is something that has arrived",
    given: {
      steps: [step({ record: waiting("approval"), approval: known({ ...approval, state: "approved" }) })],
    },
    first: { kind: "run_lock", entries: [{ kind: "decision", about: `${runId}:ok@1` }] },
    says: /decision .* is not applied yet: nobody holds the run/,
  },
  {
    what: "a job without any worker",
    given: { steps: [step({ job: known(job) })] },
    first: { kind: "job_unclaimed", because: "no_worker_for_topic", republished: 2, topic: "t", workers: [] },
    says: /waiting for a worker .* as seen by this process \(host:1\)/,
  },
  {
    what: "a job in the hands of a worker says for how long it may still be silent",
    given: {
      steps: [
        step({
          job: known({ ...job, state: "claimed", claim, progress: '{"part":0.5}', deadlineAtMs: nowMs + 1 }),
        }),
      ],
    },
    first: {
      kind: "job_running",
      worker_id: "w-1",
      lease_ms_left: 5_000,
      progress: { part: 0.5 },
      deadline_at: "2027-01-15T08:00:00.001Z",
    },
    says: /Worker w-1 has been working on step a/,
  },
  {
    what: "a claim that has run out has nothing left, and never less",
    given: {
      steps: [
        step({ job: known({ ...job, state: "claimed", claim: { ...claim, expiresAtMs: nowMs - 9 } }) }),
      ],
    },
    first: { kind: "job_running", lease_ms_left: 0, what_to_do: expect.stringContaining("fell silent") },
    says: /w-1/,
  },
  {
    what: "a result that was reported and not applied names the holder of the run, its age and what is left",
    given: {
      steps: [step({ job: known({ ...job, state: "reported" }) })],
      lock: known({ kind: "held", instance: "p-2", heldForMs: 1_200, expiresInMs: 3_800 }),
    },
    first: {
      kind: "run_lock",
      entries: [{ kind: "result", about: jobId }],
      holder: { instance: "p-2", held_for_ms: 1_200, expires_in_ms: 3_800 },
    },
    says: /result .* p-2 has held the run for 1200 ms/,
  },
  {
    what: "a lost claim that was found and not applied",
    given: { steps: [step({ job: known({ ...job, state: "lost" }) })] },
    first: { kind: "run_lock", entries: [{ kind: "claim_lost", about: jobId }] },
    says: /nobody holds the run/,
  },
  {
    what: "a retry says when, how often it failed and why",
    given: {
      steps: [
        step({
          record: waiting("retry", { wakeAtMs: nowMs + 4_000, failures: 2, attempt: 2 }),
          lastError: { message: "boom" },
        }),
      ],
    },
    first: {
      kind: "timer",
      timer: "retry",
      due_at: "2027-01-15T08:00:04.000Z",
      attempts: 2,
      failures: 2,
      last_error: { message: "boom" },
    },
    says: /Step a failed 2 times and is tried again at 2027-01-15T08:00:04/,
  },
  {
    what: "a delay says until when",
    given: { steps: [step({ record: waiting("delay", { wakeAtMs: nowMs + 1 }) })] },
    first: { kind: "timer", timer: "delay", failures: 0 },
    says: /is a delay until 2027-01-15T08:00:00.001Z/,
  },
  {
    what: "a timer that is due is something the run has to be told of",
    given: { steps: [step({ record: waiting("delay", { wakeAtMs: nowMs }) })] },
    first: { kind: "run_lock", entries: [{ kind: "timer", about: "delay of step a" }] },
    says: /timer delay of step a/,
  },
  {
    what: "a step that waits for another run leads to that run",
    given: {
      steps: [
        step({
          record: waiting("child_run"),
          childRun: { runId: child, header: known({ ...header, runId: child }) },
        }),
      ],
    },
    first: {
      kind: "child_run",
      run_id: child,
      run_status: "running",
      path: `/api/v1/workflow-runs/${child}/why`,
    },
    says: /waits for run run_07_fedcba9876543210, which is running/,
  },
  {
    what: "a child run that has ended is something that has arrived",
    given: {
      steps: [
        step({
          record: waiting("child_run"),
          childRun: { runId: child, header: known({ ...header, runId: child, status: "failed" }) },
        }),
      ],
    },
    first: { kind: "run_lock", entries: [{ kind: "child_ended", about: child }] },
    says: /child_ended/,
  },
  {
    what: "a run that was admitted and not started",
    given: { run: { counts: {}, startedAtMs: 0 } },
    first: { kind: "run_lock", entries: [{ kind: "started", about: runId }] },
    says: /started/,
  },
  {
    what: "a cancel that was asked for and not applied",
    given: { header: { ...header, cancelRequested: "c" } },
    first: { kind: "run_lock", entries: [{ kind: "cancel", about: runId }] },
    says: /cancel/,
  },
  {
    what: "a stopped tenant comes before everything else",
    given: {
      slots: known({ active: 1, stopped: true }),
      steps: [
        step({ stepId: "ok", record: waiting("approval"), approval: known(approval) }),
        step({ job: known(job) }),
      ],
    },
    first: { kind: "tenant_stopped" },
    says: /The tenant is stopped.* 2 more things/,
  },
  {
    what: "somebody who just works on the run is named",
    given: { lock: known({ kind: "held", instance: "p-3", heldForMs: 1, expiresInMs: 4_999 }) },
    first: {
      kind: "run_lock",
      entries: [],
      holder: { instance: "p-3", held_for_ms: 1, expires_in_ms: 4_999 },
    },
    says: /just being applied to the run: p-3/,
  },
];

describe("a run that does not move", () => {
  test.each(cases.map(({ what, ...scene }) => [what, scene] as const))(
    "%s",
    (_what, { given, first, says }) => {
      const explained = explainLiveRun({ ...facts, ...given });
      expect(explained.waiting_for[0]).toMatchObject(first);
      expect(explained.summary).toMatch(says);
      expect(explained.waiting_for[0]?.what_to_do).not.toBe("");
      expect(JSON.stringify(explained)).not.toContain("secret");
      expect(explained.unanswered).toEqual([]);
    },
  );

  test("of which nothing is open says that it is being worked on", () => {
    const explained = explainLiveRun({ ...facts, run: { counts: {}, startedAtMs: 1 } });
    expect(explained).toMatchObject({ waiting_for: [], open_steps: 0, not_shown: 0 });
    expect(explained.summary).toContain("nothing in it waits for longer than a moment");
  });

  test("counts the parts of a for_each, and the items that it does not show", () => {
    const children = { total: 5_000, next: 110, open: 100, met: 8, broken: 2 };
    const explained = explainLiveRun({
      ...facts,
      run: { counts: { waiting: 1 }, items: { running: 100, waiting: 0 }, startedAtMs: 1 },
      steps: [
        step({ stepId: "each", record: waiting("children", { children }) }),
        step({ stepId: "each[0]", job: known({ ...job, state: "claimed", claim, step: "each[0]" }) }),
      ],
    });
    expect(explained.waiting_for).toMatchObject([
      { kind: "job_running", step_id: "each[0]" },
      { kind: "children", step_id: "each", total: 5_000, open: 100, succeeded: 8, failed: 2 },
    ]);
    expect(explained).toMatchObject({ open_steps: 101, not_shown: 99 });
    expect(explained.summary).toContain("each[0]");
  });

  test("tells the iteration of a loop", () => {
    const explained = explainLiveRun({
      ...facts,
      steps: [step({ record: waiting("children", { iteration: 3 }) })],
    });
    expect(explained.waiting_for).toMatchObject([{ kind: "children", iteration: 3 }]);
  });

  test("shows a few dozen things at most", () => {
    const steps = Array.from({ length: 40 }, (_, index) =>
      step({ stepId: `s${index}`, job: known({ ...job, step: `s${index}` }) }),
    );
    const explained = explainLiveRun({
      ...facts,
      steps,
      run: { counts: { running: 1_000 }, startedAtMs: 1 },
    });
    expect(explained.waiting_for).toHaveLength(itemsMax);
    expect(explained.not_shown).toBe(1_000 - itemsMax);
  });
});

describe("what the store did not answer", () => {
  const silent = { kind: "unanswered" } as const;

  test("is named, and is not taken for an answer", () => {
    const explained = explainLiveRun({
      ...facts,
      lock: silent,
      slots: silent,
      unanswered: ["its steps"],
      steps: [
        step({ job: silent }),
        step({ stepId: "ok", record: waiting("approval"), approval: silent }),
        step({ stepId: "sub", record: waiting("child_run"), childRun: { runId: child, header: silent } }),
      ],
    });
    expect(explained.unanswered).toEqual([
      "its steps",
      "who holds the run",
      "the tenant's limit and kill switch",
      "the job of step a",
      "the approval of step ok",
      `run ${child}`,
    ]);
    expect(explained.waiting_for).toMatchObject([{ kind: "child_run", run_id: child }]);
    expect(explained.waiting_for[0]).not.toHaveProperty("run_status");
  });

  test("leaves a sentence that says so when nothing else is known", () => {
    const explained = explainLiveRun({ ...facts, lock: silent, steps: [step({ job: silent })] });
    expect(explained.summary).toBe("The run is running; the store did not answer what it waits for.");
  });

  test("is not said of what is simply gone by now", () => {
    const explained = explainLiveRun({ ...facts, steps: [step({ job: { kind: "absent" } })] });
    expect(explained).toMatchObject({ unanswered: [], waiting_for: [] });
  });
});
