// The sizes that a definition and what it computes may have: exactly the largest is taken, one more is refused, and what is not said is the default.
import { describe, expect, test } from "vitest";
import { readDefinition } from "../../src/domain/workflow/definition.ts";
import { limitItems, limitText } from "../../src/domain/workflow/work-count.ts";
import { type Fields, stepOf } from "../support/step-reading.ts";

/** Of so many bytes as canonical JSON. */
function definitionOf(bytes: number) {
  const empty = { id: "w", version: "1", config: { a: "" }, steps: { a: {} } };
  return { ...empty, config: { a: "x".repeat(bytes - JSON.stringify(empty).length) } };
}

describe("256 KiB", () => {
  test.each([
    [262_143, undefined],
    [262_144, undefined],
    [262_145, "a definition has at most 262144 bytes, not 262145"],
  ])("of a definition: %i bytes", (bytes, refused) => {
    const reading = readDefinition(definitionOf(bytes));
    const problems = reading.kind === "invalid" ? reading.problems.map(({ message }) => message) : [];
    expect(problems).toEqual(refused === undefined ? [] : [refused]);
  });

  test("of a text that an expression makes", () => {
    expect(() => limitText(262_144)).not.toThrow();
    expect(() => limitText(262_145)).toThrow("a text would have more than 262144 characters");
  });
});

test("a list has 10,000 items at most", () => {
  expect(() => limitItems(10_000)).not.toThrow();
  expect(() => limitItems(10_001)).toThrow("a list would have more than 10000 items");
});

test("a for_each that does not say how many run at once has 100", () => {
  const forEach = (more: Fields) => stepOf({ type: "worker", for_each: "input.items", ...more })?.forEach;
  expect(forEach({})).toMatchObject({ parallelMax: 100 });
  expect(forEach({ max_parallel: 7 })).toMatchObject({ parallelMax: 7 });
});
