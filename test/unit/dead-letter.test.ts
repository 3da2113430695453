// Dead letters read back: every reason, also as earlier versions wrote them, and whether they can be retried.
import { describe, expect, test } from "vitest";
import { judgeRetry, keptResult, poisonedBody, readLetter } from "../../src/domain/dead-letter.ts";
import type { StepRecord } from "../../src/domain/engine/records.ts";
import type { JsonValue } from "../../src/domain/fingerprint.ts";
import type { RunHeader, RunId } from "../../src/domain/run.ts";
import type { TenantId } from "../../src/domain/tenant.ts";

const runId = "run_07_0123456789abcdef" as RunId;
const jobId = `${runId}:a@3`;

const read = (id: string, body: JsonValue | string, revision = 1) =>
  readLetter({ id, body: typeof body === "string" ? body : JSON.stringify(body), revision, savedAtMs: 7 });

const exhausted = {
  job_id: jobId,
  run_id: runId,
  workflow_id: "w",
  step_id: "a",
  attempt: 3,
  topic: "t",
  failures: 3,
  lost_claims: 0,
  error_key: "result/a@3",
};

describe("a letter", () => {
  test("about used up retries names the attempt and where its error is", () => {
    expect(read(jobId, { reason: "retries_exhausted", ...exhausted })).toEqual({
      id: jobId,
      reason: "retries_exhausted",
      state: "open",
      writtenAtMs: 7,
      runId,
      workflow: "w",
      step: "a",
      attempt: 3,
      jobId,
      topic: "t",
      failures: 3,
      lostClaims: 0,
      errorKey: "result/a@3",
    });
  });

  test("that was retried is at its second revision", () => {
    expect(read(jobId, exhausted, 2).state).toBe("retried");
  });

  test("without a reason is understood by what it holds", () => {
    expect(read(jobId, exhausted).reason).toBe("retries_exhausted");
    const lost = { ...exhausted, error: { code: "claims_lost", message: "5 workers fell silent" } };
    expect(read(jobId, lost)).toMatchObject({
      reason: "claims_lost",
      error: { code: "claims_lost", message: "5 workers fell silent" },
    });
    // An entry as such: its own reason is what somebody said, and not why the letter was written.
    const cancel = { kind: "cancel", entryId: "c", actor: "ann", reason: "claims_lost" };
    expect(read(`${runId}:c`, cancel)).toMatchObject({ reason: "poisoned_entry", runId, content: cancel });
  });

  const entries: ReadonlyArray<{
    readonly entry: { kind: string; [field: string]: JsonValue };
    names?: string;
  }> = [
    { entry: { kind: "result", entryId: "e", jobId, outcome: "succeeded", payloadKey: "k" }, names: jobId },
    { entry: { kind: "claim_lost", entryId: "e", jobId, worker: "w" }, names: jobId },
    { entry: { kind: "decision", entryId: "e", approvalId: `${runId}:ok@1` }, names: `${runId}:ok@1` },
    { entry: { kind: "timer", entryId: "e", timerId: "timeout/a@2" }, names: `${runId}:a@2` },
    // Named after the attempt to come.
    { entry: { kind: "timer", entryId: "e", timerId: "retry/a@2" }, names: `${runId}:a@1` },
    { entry: { kind: "child_ended", entryId: "e", step: "sub", attempt: 2 }, names: `${runId}:sub@2` },
    { entry: { kind: "retry", entryId: "e", jobId: `${runId}:a[12]@2` }, names: `${runId}:a[12]@2` },
    { entry: { kind: "timer", entryId: "e", timerId: "deadline" } },
    { entry: { kind: "started", entryId: "e" } },
    { entry: { kind: "cancel", entryId: "e", actor: "ann", reason: "over" } },
    // Of another run: nothing that this one could retry.
    { entry: { kind: "result", entryId: "e", jobId: "run_07_fedcba9876543210:a@1" } },
  ];

  test.each(entries)("about an entry names its attempt: $entry", ({ entry, names }) => {
    const letter = read(`${runId}:e`, poisonedBody(runId, JSON.stringify(entry)));
    expect(letter).toMatchObject({ reason: "poisoned_entry", runId, content: entry });
    expect(letter.jobId).toBe(names);
  });

  test("about a result that could not be delivered shows it without its claim token", () => {
    const report = { jobId, token: "secret", outcome: "succeeded", output: { found: 42 } };
    const message = JSON.stringify({ caller: { tenant: "acme", actor: "w" }, report });
    const letter = read(jobId, { reason: "deliveries_exhausted", because: "run lock busy", message });
    expect(letter).toMatchObject({
      reason: "deliveries_exhausted",
      because: "run lock busy",
      jobId,
      content: { jobId, output: { found: 42 } },
    });
    expect(JSON.stringify(letter)).not.toContain("secret");
  });

  test("keeps the result for its delivery, also as earlier versions wrote it", () => {
    const report = {
      jobId,
      token: "secret",
      outcome: "failed",
      error: { message: "no", more: 1 },
      worker: "w",
    };
    const message = JSON.stringify({ caller: { tenant: "acme", actor: "w" }, report });
    expect(keptResult(JSON.stringify({ reason: "deliveries_exhausted", report }))).toEqual(report);
    expect(keptResult(JSON.stringify({ reason: "deliveries_exhausted", message }))).toEqual(report);
    const letter = read(jobId, { reason: "deliveries_exhausted", because: "deliveries_exhausted", report });
    expect(letter).toMatchObject({ jobId, content: { jobId, outcome: "failed" } });
    expect(JSON.stringify(letter)).not.toContain("secret");
    for (const broken of [
      {},
      { ...report, token: 1 },
      { ...report, jobId: "x" },
      { ...report, outcome: "?" },
    ])
      expect(keptResult(JSON.stringify({ report: broken }))).toBeUndefined();
    expect(keptResult("no JSON")).toBeUndefined();
  });

  test.each(["", "no JSON", "null", "[]", "7", '"text"', '{"message":"no JSON"}', '{"entry":[]}'])(
    "that holds %j is still shown",
    (body) => {
      expect(read("x", body)).toMatchObject({ id: "x", state: "open", writtenAtMs: 7 });
      expect(read(jobId, body)).toMatchObject({ jobId, runId, step: "a", attempt: 3 });
    },
  );
});

describe("a retry", () => {
  const header: RunHeader = {
    runId,
    tenant: "acme" as TenantId,
    workflow: "w",
    definition: "d",
    status: "failed",
    version: 4,
    actor: "ann",
    admittedAtMs: 1,
    updatedAtMs: 2,
  };
  const letter = read(jobId, exhausted);
  const step: StepRecord = { status: "failed", attempt: 3 };
  const parent = {
    runId: "run_07_parent00" as RunId,
    step: "s",
    attempt: 1,
    root: "run_07_parent00" as RunId,
    depth: 1,
  };

  test.each([
    { what: "of a failed run", given: { header, step } },
    { what: "of a run that timed out", given: { header: { ...header, status: "timed_out" }, step } },
    { what: "of a step of a run that goes on", given: { header: { ...header, status: "running" }, step } },
    {
      what: "of a step that timed out",
      given: { header, step: { ...step, status: "timed_out" } },
    },
    {
      what: "of a child run that has not ended",
      given: { header: { ...header, status: "waiting", parent }, step },
    },
    { what: "of a child run that failed", given: { header: { ...header, parent }, step } },
  ] as const)("$what can be made", ({ given }) => {
    expect(judgeRetry({ letter, ...given })).toEqual({ kind: "retryable" });
  });

  test.each([
    { given: { step }, because: "its run is gone" },
    { given: { header: { ...header, status: "succeeded" }, step }, because: "succeeded without it" },
    { given: { header: { ...header, status: "cancelled" }, step }, because: "was cancelled" },
    { given: { header: { ...header, status: "denied" }, step }, because: "denied by a person" },
    { given: { header: { ...header, cancelRequested: "c" }, step }, because: "was cancelled" },
    {
      given: { header: { ...header, status: "running", cancelRequested: "c" }, step },
      because: "is being cancelled",
    },
    { given: { header }, because: "its step has never begun" },
    {
      given: { header, step: { ...step, attempt: 4 } },
      because: "its step has gone on since: attempt 4 is failed",
    },
    { given: { header, step: { ...step, status: "succeeded" } }, because: "its step is succeeded" },
    { given: { header, step: { ...step, status: "running" } }, because: "its step is running" },
  ] as const)("is refused: $because", ({ given, because }) => {
    const verdict = judgeRetry({ letter, ...given });
    expect(verdict).toMatchObject({ kind: "not_retryable", because: expect.stringContaining(because) });
  });

  test("that was made before is no mistake", () => {
    expect(judgeRetry({ letter: read(jobId, exhausted, 2), header, step })).toEqual({
      kind: "already_retried",
    });
  });

  test("of a letter that is about no step is refused, and says what it is about", () => {
    const entry = read(`${runId}:c`, poisonedBody(runId, '{"kind":"cancel","entryId":"c"}'));
    expect(judgeRetry({ letter: entry, header, step })).toMatchObject({
      kind: "not_retryable",
      because: expect.stringContaining("the run as a whole"),
    });
    const nobody = read("x", { reason: "deliveries_exhausted", because: "unreadable", message: "no JSON" });
    expect(judgeRetry({ letter: nobody })).toMatchObject({
      because: expect.stringContaining("could not be read"),
    });
  });
});
