// How a run ended, from facts alone: by which step's doing, and whether its failure can be mended.
import { expect, test } from "vitest";
import type { StepRecord } from "../../src/domain/engine/records.ts";
import type { RunHeader, RunId } from "../../src/domain/run.ts";
import type { TenantId } from "../../src/domain/tenant.ts";
import { explainEndedRun } from "../../src/domain/why/explain-run.ts";
import { type EndedRunFacts, slotHolder } from "../../src/domain/why/explanation.ts";

const runId = "run_07_0123456789abcdef" as RunId;
const endedAtMs = 1_800_000_000_000;

const header: RunHeader = {
  runId,
  tenant: "acme" as TenantId,
  workflow: "w",
  definition: "d",
  status: "failed",
  version: 4,
  actor: "ann",
  admittedAtMs: endedAtMs - 9_000,
  updatedAtMs: endedAtMs,
  endedAtMs,
};

const facts: EndedRunFacts = {
  header,
  nowMs: endedAtMs + 5,
  slots: { kind: "known", value: { active: 0, limit: 2, stopped: false } },
  unanswered: [],
  letter: { kind: "absent" },
};

const record: StepRecord = { status: "failed", attempt: 3, failures: 3 };
const failedStep = { stepId: "a", record, error: { message: "boom.", code: "bang" } };
const id = `${runId}:a@3`;
const openLetter = { kind: "known", value: { id, state: "open", reason: "retries_exhausted" } } as const;
const full = { kind: "known", value: { active: 2, limit: 2, stopped: false } } as const;

const cases: ReadonlyArray<{ what: string; given: Partial<EndedRunFacts>; summary: string }> = [
  {
    what: "succeeded",
    given: { header: { ...header, status: "succeeded" } },
    summary: "The run succeeded at 2027-01-15T08:00:00.000Z; nothing is waiting.",
  },
  {
    what: "was cancelled",
    given: { header: { ...header, status: "cancelled" } },
    summary: "The run ended as cancelled at 2027-01-15T08:00:00.000Z; nothing is waiting.",
  },
  {
    what: "was denied by a person, with what they said",
    given: {
      header: { ...header, status: "denied" },
      failedStep: {
        stepId: "ok",
        record: { ...record, error: { code: "approval_rejected", message: "rejected by ben" } },
      },
    },
    summary:
      "The run was denied at 2027-01-15T08:00:00.000Z at step ok: rejected by ben; nothing is waiting.",
  },
  {
    what: "failed without a letter",
    given: { failedStep },
    summary: "The run ended as failed at 2027-01-15T08:00:00.000Z at step a: boom; nothing is waiting.",
  },
  {
    what: "failed as a whole",
    given: {
      run: { counts: {}, startedAtMs: 1, error: { code: "poisoned_entry", message: "could not be applied" } },
    },
    summary: "The run ended as failed at 2027-01-15T08:00:00.000Z: could not be applied; nothing is waiting.",
  },
  {
    what: "failed and can be retried",
    given: { failedStep, letter: openLetter },
    summary:
      "The run ended as failed at 2027-01-15T08:00:00.000Z at step a: boom; nothing is waiting. POST /api/v1/dlq/run_07_0123456789abcdef%3Aa%403/retry lets the step go on.",
  },
  {
    what: "failed and was retried before",
    given: {
      failedStep,
      letter: { kind: "known", value: { ...openLetter.value, state: "retried" } },
      slots: full,
    },
    summary:
      "The run ended as failed at 2027-01-15T08:00:00.000Z at step a: boom; nothing is waiting. Its dead letter was retried before.",
  },
];

test.each(cases)("a run that $what says so", ({ given, summary }) => {
  const explained = explainEndedRun({ ...facts, ...given });
  expect(explained).toMatchObject({ summary, waiting_for: [], open_steps: 0, unanswered: [] });
  expect(explained.ended?.at).toBe("2027-01-15T08:00:00.000Z");
});

test("a run whose retry would be refused names the runs that hold the slots", () => {
  const holder = { ...header, runId: "run_07_fedcba9876543210" as RunId, status: "running" } as const;
  const holders = { kind: "known", value: [slotHolder(holder)] } as const;
  const explained = explainEndedRun({ ...facts, failedStep, letter: openLetter, slots: full, holders });
  expect(explained.waiting_for).toMatchObject([
    {
      kind: "limit",
      limit: 2,
      active: 2,
      runs: [
        {
          run_id: holder.runId,
          workflow_id: "w",
          status: "running",
          since: "2027-01-15T07:59:51.000Z",
          path: `/api/v1/workflow-runs/${holder.runId}/why`,
        },
      ],
    },
  ]);
  expect(explained.summary).toContain("Its retry would be refused now: all slots are in use.");
  expect(explained.ended).toMatchObject({
    step_id: "a",
    error: { message: "boom.", code: "bang" },
    dead_letter: { id, state: "open" },
  });
});

test("what the store did not answer about an ended run is named", () => {
  const silent = { kind: "unanswered" } as const;
  const explained = explainEndedRun({ ...facts, slots: silent, letter: silent, holders: silent });
  expect(explained.unanswered).toEqual([
    "its dead letter",
    "the tenant's limit and kill switch",
    "the runs that hold the slots",
  ]);
});
