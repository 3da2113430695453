// The fields of a step that carry times, waits and paths: units, defaults, and what is refused.
import { describe, expect, test } from "vitest";
import type { JsonValue } from "../../src/domain/fingerprint.ts";
import { readDefinition } from "../../src/domain/workflow/definition.ts";

type Fields = { readonly [name: string]: JsonValue };

function problemsOfStep(step: Fields) {
  const reading = readDefinition({ steps: { a: step } });
  return reading.kind === "invalid" ? reading.problems : [];
}

function stepOf(step: Fields) {
  const reading = readDefinition({ steps: { a: step } });
  if (reading.kind === "invalid") throw new Error(JSON.stringify(reading.problems));
  return reading.definition.steps.get("a");
}

describe("times", () => {
  test("fractions of a second are kept, and never become none", () => {
    expect(stepOf({ timeout_sec: 0.25 })?.timeoutMs).toBe(250);
    expect(stepOf({ timeout_sec: 0.0001 })?.timeoutMs).toBe(1);
    expect(stepOf({ retry: { max_retries: 1, initial_backoff_sec: 0.01 } })?.retry.initialMs).toBe(10);
  });

  test.each<[string, Fields, Fields]>([
    ["defaults", {}, { retriesMax: 0, initialMs: 1_000, maxMs: 60_000, multiplier: 2 }],
    [
      "zeros as not set",
      { max_retries: 2, initial_backoff_sec: 0, max_backoff_sec: 0, multiplier: 0 },
      { retriesMax: 2, initialMs: 1_000, maxMs: 60_000, multiplier: 2 },
    ],
    ["a constant wait", { multiplier: 1 }, { retriesMax: 0, initialMs: 1_000, maxMs: 60_000, multiplier: 1 }],
    [
      "a first wait above the default maximum",
      { initial_backoff_sec: 90 },
      { retriesMax: 0, initialMs: 90_000, maxMs: 90_000, multiplier: 2 },
    ],
  ])("a retry has %s", (_, retry, expected) => {
    expect(stepOf({ retry })?.retry).toEqual(expected);
  });

  test.each<[Fields, unknown]>([
    [{ delay_sec: 0.5 }, { kind: "for", ms: 500 }],
    [{ delay_sec: 0 }, { kind: "for", ms: 0 }],
    [{ timeout_sec: 2 }, { kind: "for", ms: 2_000 }],
    [{ delay_until: "2026-11-15T08:30:00Z" }, { kind: "until", at: "2026-11-15T08:30:00Z" }],
    [{ delay_until: `\${input.at}` }, { kind: "until", at: `\${input.at}` }],
  ])("a delay of %j", (fields, delay) => {
    const step = stepOf({ type: "delay", ...fields });
    expect(step?.delay).toEqual(delay);
    expect(step?.timeoutMs).toBeUndefined();
  });

  test.each<[Fields, string]>([
    [{}, "delay_sec"],
    [{ delay_sec: -1 }, "delay_sec"],
    [{ delay_sec: 1, delay_until: "2026-11-15T08:30:00Z" }, "delay_until"],
    [{ delay_until: "tomorrow" }, "delay_until"],
    [{ delay_sec: 10, timeout_sec: 5 }, "timeout_sec"],
    [{ delay_until: "2026-11-15T08:30:00Z", timeout_sec: 5 }, "timeout_sec"],
    [{ delay_until: "2026-02-30T08:30:00Z" }, "delay_until"],
    [{ delay_until: `\${input.` }, "delay_until"],
  ])("a delay of %j is refused", (fields, name) => {
    expect(problemsOfStep({ type: "delay", ...fields })[0]?.path).toBe(`steps.a.${name}`);
  });
});

describe("output_path", () => {
  test.each([
    ["result", ["result"]],
    ["ctx.review.result", ["review", "result"]],
  ])("%s", (text, path) => {
    expect(stepOf({ output_path: text })?.outputPath).toEqual(path);
  });

  test.each([
    "steps.x",
    "a..b",
    "a.__proto__.b",
    "constructor",
    "prototype.x",
    "$.a",
    "a b",
    Array(17).fill("a").join("."),
  ])("%s is refused", (path) => {
    expect(problemsOfStep({ output_path: path })).toMatchObject([{ path: "steps.a.output_path" }]);
  });
});
