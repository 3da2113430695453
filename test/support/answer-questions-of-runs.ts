// Questions about definitions, runs, jobs and decisions: every operation, with and without what is optional, and each refusal.
import { ask, type Id, type Page, runs, two, workflows } from "./answer-question.ts";
import type { Question, RawAnswers } from "./answer-script.ts";

type Polled = { readonly jobs: ReadonlyArray<{ readonly job_id: string; readonly claim_token: string }> };

/** What happens after an answer has to have happened before the next question: a poll waits for its job. */
const poll = (title: string, topic: string, more: object = {}) =>
  ask(title, "worker", "POST /api/v1/jobs/poll", {
    ...{
      worker_id: "w-1",
      topics: [topic],
      poll_id: title.replaceAll(/\W/g, "-"),
      max_jobs: 1,
      wait_ms: 5_000,
      ...more,
    },
  });

const report = (title: string, polled: string, result: object) =>
  ask(title, "worker", "POST /api/v1/jobs/results", (raw) => {
    const [job] = (raw(polled) as Polled).jobs;
    return {
      worker_id: "w-1",
      results: [{ job_id: job?.job_id, claim_token: job?.claim_token, ...result }],
    };
  });

export const definitionsAndRuns: readonly Question[] = [
  ask("save", "admin", `POST ${workflows}`, two),
  ask("save the same", "admin", `POST ${workflows}`, two),
  ask("save another text", "admin", `POST ${workflows}`, "id: yaml\nsteps:\n  only: { topic: t }\n"),
  ask("save what is wrong", "admin", `POST ${workflows}`, { id: "bad", steps: { a: { tpic: "t" } } }),
  ask("save as a viewer", "viewer", `POST ${workflows}`, two),
  ask("validate", "admin", `POST ${workflows}/validate`, two),
  ask(
    "validate what is wrong",
    "admin",
    `POST ${workflows}/validate`,
    "id: bad\nsteps:\n  only: { tpic: t }\n",
  ),
  ask("get", "viewer", `GET ${workflows}/two`),
  ask("get nothing", "viewer", `GET ${workflows}/none`),
  ask("get another tenant's", "globex viewer", `GET ${workflows}/two`),
  ask("list", "viewer", `GET ${workflows}`),
  ask("list a page", "viewer", `GET ${workflows}?limit=1`),
  ask(
    "list the rest",
    "viewer",
    (raw) => `GET ${workflows}?cursor=${(raw("list a page") as Page).next_cursor}`,
  ),
  ask("list with a wrong cursor", "viewer", `GET ${workflows}?cursor=x`),
  ask(
    "list with another list's cursor",
    "viewer",
    (raw) => `GET ${runs}?cursor=${(raw("list a page") as Page).next_cursor}`,
  ),
  ask("list none", "globex viewer", `GET ${workflows}`),
  ask("runs before any", "viewer", `GET ${workflows}/two/runs`),
  ask("runs of nothing", "viewer", `GET ${workflows}/none/runs`),
  ask("dry run", "operator", `POST ${workflows}/two/dry-run`, {
    input: { n: 1 },
    outputs: { one: { m: 2 } },
  }),
  ask("dry run with nothing", "operator", `POST ${workflows}/two/dry-run`, {}),
  ask("dry run of a start", "operator", `POST ${workflows}/two/runs?dry_run=true`, { n: 3 }),
  ask("dry run of nothing", "operator", `POST ${workflows}/none/dry-run`, {}),
  ask("start", "operator", `POST ${workflows}/two/runs`, { n: 1 }, { "idempotency-key": "k-1" }),
  ask("start again", "operator", `POST ${workflows}/two/runs`, { n: 1 }, { "x-idempotency-key": "k-1" }),
  ask(
    "start with the key of another",
    "operator",
    `POST ${workflows}/two/runs`,
    { n: 2 },
    { "idempotency-key": "k-1" },
  ),
  ask(
    "start with a wrong key",
    "operator",
    `POST ${workflows}/two/runs`,
    { n: 2 },
    { "idempotency-key": "" },
  ),
  ask(
    "start with two keys",
    "operator",
    `POST ${workflows}/two/runs`,
    { n: 2 },
    { "idempotency-key": "a", "x-idempotency-key": "b" },
  ),
  ask("start with a list", "operator", `POST ${workflows}/two/runs`, [1]),
  ask("start nothing", "operator", `POST ${workflows}/none/runs`, {}),
  ask("start without a key", "operator", `POST ${workflows}/two/runs`, { n: 2 }),
  ask("look up the key", "operator", "GET /api/v1/idempotency-keys/k-1"),
  ask("look up no key", "operator", "GET /api/v1/idempotency-keys/k-2"),
  ask("run", "viewer", (raw) => `GET ${runs}/${(raw("start") as Id).run_id}`),
  ask("run of nothing", "viewer", `GET ${runs}/run_00_00000000nobody`),
  ask("run without a name", "viewer", `GET ${runs}/x`),
  ask("another tenant's run", "globex viewer", (raw) => `GET ${runs}/${(raw("start") as Id).run_id}`),
  ask("runs", "viewer", `GET ${runs}`),
  ask("runs of a state", "viewer", `GET ${runs}?status=running`),
  ask("runs of another state", "viewer", `GET ${runs}?status=failed`),
  ask("runs of a workflow", "viewer", `GET ${runs}?workflow_id=two&limit=1`),
  ask(
    "more runs of a workflow",
    "viewer",
    (raw) => `GET ${runs}?workflow_id=two&limit=1&cursor=${(raw("runs of a workflow") as Page).next_cursor}`,
  ),
  ask("runs of the workflow", "viewer", `GET ${workflows}/two/runs?limit=1`),
  ask(
    "more runs of the workflow",
    "viewer",
    (raw) => `GET ${workflows}/two/runs?cursor=${(raw("runs of the workflow") as Page).next_cursor}`,
  ),
  ask("why", "viewer", (raw) => `GET ${runs}/${(raw("start") as Id).run_id}/why`),
  ask("why nothing", "viewer", `GET ${runs}/run_00_00000000nobody/why`),
  ask("why without a name", "viewer", `GET ${runs}/x/why`),
  ask("timeline", "viewer", (raw) => `GET ${runs}/${(raw("start") as Id).run_id}/timeline`),
  ask("timeline of nothing", "viewer", `GET ${runs}/run_00_00000000nobody/timeline`),
  ask("timeline without a name", "viewer", `GET ${runs}/x/timeline`),
  ask("items of no list", "viewer", (raw) => `GET ${runs}/${(raw("start") as Id).run_id}/steps/one/items`),
  ask("items without a name", "viewer", `GET ${runs}/x/steps/one/items`),
  ask("delete one that lives", "admin", (raw) => `DELETE ${runs}/${(raw("start") as Id).run_id}`),
  ask("cancel", "operator", (raw) => `POST ${runs}/${(raw("start without a key") as Id).run_id}/cancel`, {
    reason: "over",
  }),
  ask(
    "cancel again",
    "operator",
    (raw) => `POST ${runs}/${(raw("start without a key") as Id).run_id}/cancel`,
    {},
  ),
  ask("cancel nothing", "operator", `POST ${runs}/run_00_00000000nobody/cancel`, {}),
  ask("cancel without a name", "operator", `POST ${runs}/x/cancel`, {}),
  ask("cancelled run", "viewer", (raw) => `GET ${runs}/${(raw("start without a key") as Id).run_id}`),
  ask(
    "timeline of the cancelled one",
    "viewer",
    (raw) => `GET ${runs}/${(raw("start without a key") as Id).run_id}/timeline?limit=1`,
  ),
  ask(
    "its rest",
    "viewer",
    (raw) =>
      `GET ${runs}/${(raw("start without a key") as Id).run_id}/timeline?cursor=${(raw("timeline of the cancelled one") as Page).next_cursor}`,
  ),
  ask(
    "why it was cancelled",
    "viewer",
    (raw) => `GET ${runs}/${(raw("start without a key") as Id).run_id}/why`,
  ),
  ask(
    "cancel by another workflow",
    "operator",
    (raw) => `POST ${workflows}/yaml/runs/${(raw("start") as Id).run_id}/cancel`,
    {},
  ),
  ask(
    "cancel by its workflow",
    "operator",
    (raw) => `POST ${workflows}/two/runs/${(raw("start") as Id).run_id}/cancel`,
    {},
  ),
  ask("cancel by its workflow without a name", "operator", `POST ${workflows}/two/runs/x/cancel`, {}),
  ask("plan a rerun", "operator", (raw) => `POST ${runs}/${(raw("start") as Id).run_id}/rerun`, {
    from_step: "one",
    dry_run: true,
  }),
  ask(
    "rerun",
    "operator",
    (raw) => `POST ${runs}/${(raw("start") as Id).run_id}/rerun`,
    { from_step: "one" },
    { "idempotency-key": "k-9" },
  ),
  ask(
    "rerun again",
    "operator",
    (raw) => `POST ${runs}/${(raw("start") as Id).run_id}/rerun`,
    { from_step: "one" },
    { "idempotency-key": "k-9" },
  ),
  ask("rerun from nothing", "operator", (raw) => `POST ${runs}/${(raw("start") as Id).run_id}/rerun`, {
    from_step: "none",
  }),
  ask("rerun nothing", "operator", `POST ${runs}/run_00_00000000nobody/rerun`, { from_step: "one" }),
  ask("rerun without a name", "operator", `POST ${runs}/x/rerun`, { from_step: "one" }),
  ask(
    "rerun with a wrong key",
    "operator",
    (raw) => `POST ${runs}/${(raw("start") as Id).run_id}/rerun`,
    { from_step: "one" },
    { "idempotency-key": "" },
  ),
  ask("delete", "admin", (raw) => `DELETE ${runs}/${(raw("start without a key") as Id).run_id}`),
  ask("delete again", "admin", (raw) => `DELETE ${runs}/${(raw("start without a key") as Id).run_id}`),
  ask("delete without a name", "admin", `DELETE ${runs}/x`),
  ask("remove", "admin", `DELETE ${workflows}/yaml`),
  ask("remove again", "admin", `DELETE ${workflows}/yaml`),
  ask("events", "viewer", "GET /api/v1/events?limit=500"),
];

const many = {
  id: "many",
  steps: {
    each: { type: "worker", topic: "each", for_each: "[1, 2, 3]", input: { n: "${item}" } },
  },
};

const guarded = {
  id: "guarded",
  steps: { ok: { type: "approval", timeout_sec: 3_600 }, after: { topic: "one", depends_on: ["ok"] } },
};

const approvals = "/api/v1/approvals";
const letters = "/api/v1/dlq";
const firstJob = (raw: RawAnswers, title: string) => {
  const [job] = (raw(title) as Polled).jobs;
  return job as { readonly job_id: string; readonly claim_token: string };
};
const approvalOf = (raw: RawAnswers, title: string) => (raw(title) as Page).items[0] as Page["items"][number];
const namedJob = (raw: RawAnswers, title: string) => {
  const { job_id, claim_token } = firstJob(raw, title);
  return { job_id, claim_token };
};
const jobPath = (raw: RawAnswers, title: string) => encodeURIComponent(firstJob(raw, title).job_id);

export const jobsAndDecisions: readonly Question[] = [
  ask("save", "admin", `POST ${workflows}`, { ...two, id: "work" }),
  ask("save a list", "admin", `POST ${workflows}`, many),
  ask("save an approval", "admin", `POST ${workflows}`, guarded),
  poll("no job yet", "one", { wait_ms: 0 }),
  ask("start", "operator", `POST ${workflows}/work/runs`, { n: 7 }),
  ask("ready", "viewer", "GET /api/v1/jobs?topic=one"),
  ask("ready of another topic", "viewer", "GET /api/v1/jobs?topic=none&limit=1"),
  poll("polled", "one", { lease_ms: 60_000, labels: { region: "eu" }, capabilities: ["gpu"] }),
  ask("workers", "viewer", "GET /api/v1/workers"),
  ask("job", "viewer", (raw) => `GET /api/v1/jobs/${jobPath(raw, "polled")}`),
  ask("no job", "viewer", "GET /api/v1/jobs/x"),
  ask("heartbeat", "worker", "POST /api/v1/jobs/heartbeat", (raw) => ({
    worker_id: "w-1",
    jobs: [
      { ...namedJob(raw, "polled"), lease_ms: 50_000, progress: { part: 0.5 } },
      { job_id: "x", claim_token: "a".repeat(32) },
    ],
  })),
  ask("heartbeat of another", "worker", "POST /api/v1/jobs/heartbeat", (raw) => ({
    worker_id: "w-1",
    jobs: [{ ...namedJob(raw, "polled"), claim_token: "a".repeat(32) }],
  })),
  ask("job with progress", "viewer", (raw) => `GET /api/v1/jobs/${jobPath(raw, "polled")}`),
  ask("results that are wrong", "worker", "POST /api/v1/jobs/results", (raw) => ({
    worker_id: "w-1",
    results: [
      { job_id: "x", claim_token: "a".repeat(32), status: "succeeded" },
      { job_id: firstJob(raw, "polled").job_id, claim_token: "a".repeat(32), status: "succeeded" },
    ],
  })),
  report("result", "polled", { status: "succeeded", output: { text: "done" } }),
  report("result again", "polled", { status: "succeeded", output: { text: "done" } }),
  report("another result", "polled", { status: "failed", error: { message: "no", code: "no" } }),
  poll("second", "after", {}),
  report("retried", "second", { status: "failed", error: { message: "it broke", code: "broken" } }),
  ask("run", "viewer", (raw) => `GET ${runs}/${(raw("start") as Id).run_id}`),
  ask("why it failed", "viewer", (raw) => `GET ${runs}/${(raw("start") as Id).run_id}/why`),
  ask("its timeline", "viewer", (raw) => `GET ${runs}/${(raw("start") as Id).run_id}/timeline`),
  ask("letters", "viewer", `GET ${letters}`),
  ask("open letters", "viewer", `GET ${letters}?state=open&reason=retries_exhausted`),
  ask("letters of another reason", "viewer", `GET ${letters}?reason=claims_lost`),
  ask("a page of letters", "viewer", `GET ${letters}/page?limit=1`),
  ask("letters after a wrong cursor", "viewer", `GET ${letters}?cursor=x`),
  ask("letter", "viewer", (raw) => `GET ${letters}/${jobPath(raw, "second")}`),
  ask("no letter", "viewer", `GET ${letters}/x`),
  ask("purge those before", "admin", `POST ${letters}/purge`, { before: "2020-01-01T00:00:00Z" }),
  ask("purge those of another reason", "admin", `POST ${letters}/purge`, { reason: "claims_lost" }),
  ask("purge those that were retried", "admin", `POST ${letters}/purge`, { state: "retried" }),
  ask("retry the letter", "operator", (raw) => `POST ${letters}/${jobPath(raw, "second")}/retry`, {}),
  ask("retry no letter", "operator", `POST ${letters}/x/retry`, {}),
  poll("third", "after", {}),
  ask("retried letter", "viewer", (raw) => `GET ${letters}/${jobPath(raw, "second")}`),
  ask("retried letters", "viewer", `GET ${letters}?state=retried`),
  report("at last", "third", { status: "succeeded", output: 5 }),
  ask("run in the end", "viewer", (raw) => `GET ${runs}/${(raw("start") as Id).run_id}`),
  ask("remove the letter", "admin", (raw) => `DELETE ${letters}/${jobPath(raw, "second")}`),
  ask("remove it again", "admin", (raw) => `DELETE ${letters}/${jobPath(raw, "second")}`),
  ask("start a list", "operator", `POST ${workflows}/many/runs`, {}),
  poll("an item", "each"),
  report("of the list", "an item", { status: "succeeded", output: 1 }),
  ask(
    "items",
    "viewer",
    (raw) => `GET ${runs}/${(raw("start a list") as Id).run_id}/steps/each/items?limit=2`,
  ),
  ask(
    "more items",
    "viewer",
    (raw) =>
      `GET ${runs}/${(raw("start a list") as Id).run_id}/steps/each/items?cursor=${(raw("items") as Page).next_cursor}`,
  ),
  ask("ready ones", "viewer", "GET /api/v1/jobs?topic=each&limit=1"),
  ask("start an approval", "operator", `POST ${workflows}/guarded/runs`, {}),
  ask("approvals", "viewer", `GET ${approvals}?state=pending`),
  ask(
    "context",
    "approver",
    (raw) => `GET ${approvals}/${encodeURIComponent(approvalOf(raw, "approvals").job_id)}/context`,
  ),
  ask("context of nothing", "approver", `GET ${approvals}/x/context`),
  ask(
    "approve something else",
    "approver",
    (raw) => `POST ${approvals}/${encodeURIComponent(approvalOf(raw, "approvals").job_id)}/approve`,
    { hash: "0".repeat(64) },
  ),
  ask(
    "approve",
    "approver",
    (raw) => `POST ${approvals}/${encodeURIComponent(approvalOf(raw, "approvals").job_id)}/approve`,
    (raw) => ({ hash: approvalOf(raw, "approvals").hash, reason: "seen" }),
  ),
  ask(
    "approve again",
    "approver",
    (raw) => `POST ${approvals}/${encodeURIComponent(approvalOf(raw, "approvals").job_id)}/approve`,
    {},
  ),
  ask(
    "reject too late",
    "approver",
    (raw) => `POST ${approvals}/${encodeURIComponent(approvalOf(raw, "approvals").job_id)}/reject`,
    {},
  ),
  ask("approve nothing", "approver", `POST ${approvals}/x/approve`, {}),
  poll("what was approved", "one"),
  ask("approvals with a wrong cursor", "viewer", `GET ${approvals}?cursor=x`),
  ask("start another", "operator", `POST ${workflows}/guarded/runs`, {}),
  ask("pending approvals", "viewer", `GET ${approvals}?state=pending`),
  ask(
    "reject",
    "approver",
    (raw) => `POST ${approvals}/${encodeURIComponent(approvalOf(raw, "pending approvals").job_id)}/reject`,
    { reason: "no" },
  ),
  ask("all approvals, one by one", "viewer", `GET ${approvals}?limit=1`),
  ask(
    "and the next",
    "viewer",
    (raw) => `GET ${approvals}?limit=1&cursor=${(raw("all approvals, one by one") as Page).next_cursor}`,
  ),
  ask("why it was denied", "viewer", (raw) => `GET ${runs}/${(raw("start another") as Id).run_id}/why`),
  ask("denied run", "viewer", (raw) => `GET ${runs}/${(raw("start another") as Id).run_id}`),
];
