// A run as the API shows it, times as texts, and a definition taken from its JSON to the end of its run.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { formatTime, parseTime } from "../../src/domain/engine/rfc3339.ts";
import { describeRun } from "../../src/domain/engine/views.ts";
import type { RunHeader } from "../../src/domain/run.ts";
import { compileDefinition } from "../../src/domain/workflow/compile.ts";
import { readDefinition } from "../../src/domain/workflow/definition.ts";
import { define } from "./engine-sketches.ts";
import { runId, tenant, World } from "./engine-world.ts";

// Fixed, so that a green change stays green.
fc.configureGlobal({ seed: 1 });

function describeWorld(world: World) {
  const header: RunHeader = {
    runId,
    tenant,
    workflow: "wf",
    definition: "sha",
    status: world.status,
    version: world.version,
    actor: "key_1",
    admittedAtMs: 1_000_000,
    updatedAtMs: world.nowMs,
  };
  return describeRun(
    world.compiled,
    header,
    [...world.records].map(([key, body]) => ({ key, body })),
  );
}

describe("a run as the API shows it", () => {
  test("has the fields that clients know, each step with its attempts, times, job, output and error", () => {
    const world = new World(
      define({
        a: { name: "Fetch" },
        b: { dependsOn: ["a"], onError: "fix" },
        c: { dependsOn: ["b"] },
        fix: {},
      }),
    );
    world.nowMs += 250;
    world.result("a@1", "succeeded", { output: { rows: 2 } });
    world.drain();
    world.result("b@1", "failed", { error: { message: "no disk", code: "E_DISK", detail: "secret" } });
    world.drain();
    const shown = describeWorld(world);
    expect(shown).toMatchObject({
      id: runId,
      run_id: runId,
      workflow_id: "wf",
      org_id: "acme",
      status: "running",
      created_by: "key_1",
      created_at: "1970-01-01T00:16:40.000Z",
      updated_at: "1970-01-01T00:16:40.250Z",
      input: { amount: 5 },
      open_steps: 1,
    });
    expect(shown.completed_at).toBeUndefined();
    expect(shown.steps.a).toEqual({
      step_id: "a",
      name: "Fetch",
      type: "worker",
      status: "succeeded",
      attempts: 1,
      started_at: "1970-01-01T00:16:40.000Z",
      completed_at: "1970-01-01T00:16:40.250Z",
      job_id: `${runId}:a@1`,
      output: { rows: 2 },
    });
    expect(shown.steps.b?.error).toEqual({ message: "no disk", code: "E_DISK" });
    expect(shown.steps.c).toMatchObject({ status: "skipped", skipped_because: "dependency", attempts: 0 });
    expect(shown.steps.fix).toMatchObject({ status: "running", handles: "b" });
  });

  test("says what made it fail, and what nobody needed", () => {
    const world = new World(define({ a: { onError: "fix" }, b: {}, fix: {} }));
    world.result("b@1", "failed", { error: { message: "no" } });
    world.result("a@1");
    world.drain();
    const shown = describeWorld(world);
    expect(shown.error).toEqual({ step_id: "b", status: "failed", message: "no" });
    expect(shown.steps.fix).toMatchObject({ status: "skipped", skipped_because: "not_needed" });
    expect(shown.completed_at).toBe("1970-01-01T00:16:40.000Z");
  });

  test("shows a run that has not been started, and steps that wait", () => {
    const pending = new World(
      define(Object.fromEntries(Array.from({ length: 80 }, (_, i) => [`s${i}`, {}]))),
    );
    expect(describeWorld(pending)).toMatchObject({ status: "pending", open_steps: 0 });
    expect(describeWorld(pending).started_at).toBeUndefined();
    const waiting = new World(define({ ask: { type: "approval", timeoutMs: 60_000 } }));
    expect(describeWorld(waiting).steps.ask).toMatchObject({
      status: "waiting",
      waiting_for: "approval",
      wakes_at: "1970-01-01T00:17:40.000Z",
      job_id: `${runId}:ask@1`,
    });
  });
});

describe("times", () => {
  test("are written as the platform writes them, and read back", () => {
    const times = fc.integer({ min: Date.UTC(0, 0, 1), max: Date.UTC(9999, 11, 31) });
    fc.assert(
      fc.property(times, (ms) => {
        expect(formatTime(ms)).toBe(new Date(ms).toISOString());
        expect(parseTime(formatTime(ms))).toBe(ms);
      }),
    );
  });

  test("may have an offset; what is not a time with one is refused", () => {
    expect(parseTime("2026-11-15T08:40:00+05:30")).toBe(Date.UTC(2026, 10, 15, 3, 10));
    expect(parseTime("2024-02-29t23:59:59.9999z")).toBe(Date.UTC(2024, 1, 29, 23, 59, 59, 999));
    expect(parseTime("2026-11-15T08:40:00.57Z")).toBe(Date.UTC(2026, 10, 15, 8, 40, 0, 570));
    for (const text of [
      "2026-11-15",
      "2026-11-15T08:40:00",
      "2026-02-30T00:00:00Z",
      "2026-13-01T00:00:00Z",
      "",
    ]) {
      expect(parseTime(text)).toBeUndefined();
    }
  });
});

const template = (source: string) => `\${${source}}`;

describe("a definition in JSON", () => {
  const compiledOf = (steps: object) => {
    const reading = readDefinition({ name: "Pay", timeout_sec: 60, steps } as never);
    if (reading.kind !== "valid") throw new Error(JSON.stringify(reading));
    return compileDefinition("pay", reading.definition);
  };

  test("runs from its start to its end", () => {
    const compiled = compiledOf({
      check: { type: "worker", topic: "job.check", input: { amount: template("input.amount") } },
      large: { type: "condition", depends_on: ["check"], condition: "input.amount > 3" },
      ask: {
        type: "approval",
        depends_on: ["large"],
        condition: "ctx.steps.large",
        input: { amount: template("input.amount"), score: template("steps.check.output.score") },
      },
      pay: {
        depends_on: ["ask"],
        on_error: "refund",
        input: { by: template("steps.ask.output.decided_by"), score: template("ctx.steps.check.score") },
        output_path: "payment.receipt",
        retry: { max_retries: 1 },
      },
      refund: { input: { why: template("steps.pay.error.message") } },
      tell: {
        depends_on: ["pay"],
        type: "transform",
        input: { text: `paid ${template("ctx.payment.receipt.id")}` },
      },
    });
    const world = new World(compiled);
    expect(world.body("job-input/check@1")).toEqual({ amount: 5 });
    world.result("check@1", "succeeded", { output: { score: 0.5 } });
    world.drain();
    expect(world.body("approval/ask@1")).toMatchObject({ payload: { amount: 5, score: 0.5 } });
    world.decide("ask@1", "approved");
    world.drain();
    expect(world.body("job-input/pay@1")).toEqual({ by: "ann", score: 0.5 });
    world.result("pay@1", "failed_retryable", { error: { message: "busy" } });
    world.drain();
    world.fire("retry/pay@2");
    world.drain();
    world.result("pay@2", "succeeded", { output: { id: "r7" } });
    world.drain();
    expect(world.body("output/tell")).toEqual({ output: { text: "paid r7" } });
    expect([world.status, world.shown.refund]).toEqual(["succeeded", "skipped"]);
    expect(world.peak.needsRounds).toBeLessThanOrEqual(1);
  });

  test("hands the error to its handler", () => {
    const compiled = compiledOf({
      pay: { on_error: "refund" },
      refund: { input: { why: template("steps.pay.error.message") } },
    });
    const world = new World(compiled);
    world.result("pay@1", "failed", { error: { message: "no funds" } });
    world.drain();
    expect(world.body("job-input/refund@1")).toEqual({
      why: "no funds",
      error: { step: "pay", status: "failed", message: "no funds" },
    });
  });
});
