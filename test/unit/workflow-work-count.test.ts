// How the work of reading a definition is counted, limited and cut into slices.
import { describe, expect, test } from "vitest";
import type { JsonValue } from "../../src/domain/fingerprint.ts";
import type { Sliced } from "../../src/domain/slices.ts";
import { compilingDefinition } from "../../src/domain/workflow/compile.ts";
import { readDefinition, readingDefinition } from "../../src/domain/workflow/definition.ts";
import { expressions, manyWriters, ordinarySteps } from "../support/costly-definitions.ts";
import { threadTimeMs } from "../support/thread-time.ts";

function countOf(value: JsonValue): number {
  const reading = readDefinition(value);
  if (reading.kind === "invalid") throw new Error(JSON.stringify(reading.problems.slice(0, 3)));
  return reading.count;
}

const steps = (count: number, step: (index: number) => JsonValue): Record<string, JsonValue> =>
  Object.fromEntries(Array.from({ length: count }, (_, index) => [`s${index}`, step(index)]));
const names = (count: number, from = 0) => Array.from({ length: count }, (_, index) => `s${from + index}`);

/** Of one part of a definition, `size` times as much. */
const growing: Readonly<Record<string, (size: number) => JsonValue>> = {
  "ordinary steps": (size) => ordinarySteps(100 * size),
  "texts without templates": (size) => ({ steps: { a: { input: { text: "x".repeat(20_000 * size) } } } }),
  "numbers in an input": (size) => ({ steps: { a: { input: { list: Array(10_000 * size).fill(1) } } } }),
  "long expressions": (size) => ({
    steps: { a: { input: { list: expressions(() => "input.a", "||", { bytes: 25_000 * size }) } } },
  }),
  "short expressions": (size) => ({ steps: { a: { input: { text: "${1}".repeat(6_000 * size) } } } }),
  "steps that are waited for": (size) => ({
    steps: steps(50 * size, (index) => ({
      depends_on: names(Math.min(index, 20), index - Math.min(index, 20)),
    })),
  }),
  "steps inside a parallel, and steps that wait for it": (size) => ({
    steps: {
      all: { type: "parallel", input: { steps: names(50 * size) } },
      ...steps(50 * size, () => ({})),
      ...Object.fromEntries(names(50 * size).map((id) => [`after-${id}`, { depends_on: ["all"] }])),
    },
  }),
  "switch cases": (size) => ({
    steps: {
      choice: {
        type: "switch",
        input: { cases: Array(100 * size).fill({ match: "${input.a > 1}", next: "a" }) },
      },
      a: {},
    },
  }),
  "steps with handlers": (size) => ({
    steps: {
      ...steps(50 * size, (index) => ({ on_error: `h${index}` })),
      ...Object.fromEntries(Array.from({ length: 50 * size }, (_, index) => [`h${index}`, {}])),
    },
  }),
};

describe("the count of a definition", () => {
  test.each(Object.entries(growing))("is the same each time, and grows as it does: %s", (_name, make) => {
    const [once, again, eight] = [countOf(make(1)), countOf(make(1)), countOf(make(8))];
    expect(again).toBe(once);
    expect(eight / once).toBeLessThan(10);
  });

  test("is far from the limit for 1,000 ordinary steps of 256 KiB", () => {
    const largest = ordinarySteps(1_000, 255_000);
    expect(JSON.stringify(largest).length).toBeGreaterThan(200_000);
    expect(countOf(largest)).toBeLessThan(500_000);
  });

  test("is refused over the limit, and the problem names what costs most", () => {
    const reading = readDefinition(manyWriters(500));
    expect(reading).toMatchObject({
      kind: "invalid",
      tooCostly: true,
      problems: [{ path: "steps", message: expect.stringMatching(/^takes too much work to read: .*ctx/) }],
    });
  });

  test("does not refuse what is stored already", () => {
    const work = readingDefinition(manyWriters(400, 30_000), "stored");
    expect(slicesOf(work).value).toMatchObject({ kind: "valid" });
    expect(readDefinition(manyWriters(400, 30_000)).kind).toBe("invalid");
  });
});

describe("a definition is made ready in slices", () => {
  test("a small one in one", () => {
    const read = slicesOf(readingDefinition(ordinarySteps(20), "stored"));
    expect(read.slices).toBe(1);
    if (read.value.kind === "invalid") throw new Error("it is valid");
    expect(slicesOf(compilingDefinition("w", read.value.definition)).slices).toBe(1);
  });

  test.each<[string, JsonValue]>([
    ["1,000 ordinary steps", ordinarySteps(1_000, 250_000)],
    [
      "240 KiB of expressions in one step",
      { steps: { a: { input: { list: expressions(() => "input.a", "+") } } } },
    ],
    ["33,000 steps that are waited for", growing["steps that are waited for"]?.(20) ?? null],
    ["100,000 numbers in one step", growing["numbers in an input"]?.(10) ?? null],
  ])("%s in many, none of them long", (_name, value) => {
    // Once before: what is measured is the work, not the compiler of the machine that warms up.
    slicesOf(readingDefinition(value, "stored"));
    const read = slicesOf(readingDefinition(value, "stored"));
    if (read.value.kind === "invalid") throw new Error(JSON.stringify(read.value.problems[0]));
    const compiled = slicesOf(compilingDefinition("w", read.value.definition));
    expect(read.slices).toBeGreaterThan(5);
    expect(Math.max(read.longestMs, compiled.longestMs)).toBeLessThan(100);
  });
});

function slicesOf<Value>(work: Sliced<Value>) {
  let [slices, longestMs] = [0, 0];
  for (;;) {
    const before = threadTimeMs();
    const step = work.next();
    slices += 1;
    longestMs = Math.max(longestMs, threadTimeMs() - before);
    if (step.done === true) return { value: step.value, slices, longestMs };
  }
}
