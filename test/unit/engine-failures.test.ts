// Which of several failed steps decides how a run ends, how many others are remembered, and what is left when one is mended.
import { describe, expect, test } from "vitest";
import type { Draft } from "../../src/domain/engine/draft.ts";
import type { Failure, RunProgress } from "../../src/domain/engine/records.ts";
import { countFailure, forgetFailure } from "../../src/domain/engine/settle-step.ts";

type Status = Failure["status"];

/** Of a run whose steps answer to no controller. */
function runWith(...statuses: readonly Status[]): Draft & { readonly run: RunProgress } {
  const draft = { run: { counts: {}, startedAtMs: 0 }, compiled: { steps: new Map() } } as unknown as Draft;
  for (const [index, status] of statuses.entries()) countFailure(draft, { step: `s${index}`, status });
  return draft;
}

const first = (count: number) => Array.from({ length: count }, (_, index) => `s${index}`);

describe("of several failures", () => {
  test.each<[readonly Status[], string]>([
    [["timed_out", "denied"], "s1"],
    [["timed_out", "failed"], "s1"],
    [["denied", "failed"], "s1"],
    [["denied", "timed_out"], "s0"],
    [["failed", "timed_out"], "s0"],
    [["failed", "denied"], "s0"],
    [["failed", "failed"], "s0"],
    [["denied", "denied"], "s0"],
    [["timed_out", "timed_out"], "s0"],
  ])("%j the worst counts, the first among equals, and the other is remembered", (statuses, worst) => {
    const { run } = runWith(...statuses);
    expect(run.failure?.step).toBe(worst);
    expect(run.failures?.map(({ step }) => step)).toEqual(first(2).filter((step) => step !== worst));
  });

  test.each([
    [32, 31],
    [33, 32],
    [34, 32],
  ])("of %i failures %i are remembered beside the one that counts", (count, remembered) => {
    const { run } = runWith(...Array.from({ length: count }, () => "failed" as const));
    expect(run.failures?.map(({ step }) => step)).toEqual(first(remembered + 1).slice(1));
  });
});

describe("mended", () => {
  test("one by one, in any order, three failures leave the worst of the others and in the end none", () => {
    const orders = [
      ["s0", "s1", "s2"],
      ["s0", "s2", "s1"],
      ["s1", "s0", "s2"],
      ["s1", "s2", "s0"],
      ["s2", "s0", "s1"],
      ["s2", "s1", "s0"],
    ];
    const left = orders.map((order) => {
      const draft = runWith("denied", "timed_out", "failed");
      return order.map((step) => {
        forgetFailure(draft, step);
        return draft.run.failure?.step;
      });
    });
    expect(left).toEqual([
      ["s2", "s2", undefined],
      ["s2", "s1", undefined],
      ["s2", "s2", undefined],
      ["s2", "s0", undefined],
      ["s0", "s1", undefined],
      ["s0", "s0", undefined],
    ]);
  });

  test("what is not the one that counts is forgotten among the others, and a step that never failed changes nothing", () => {
    const draft = runWith("failed", "denied", "timed_out");
    forgetFailure(draft, "s9");
    expect(draft.run.failures?.map(({ step }) => step)).toEqual(["s1", "s2"]);
    forgetFailure(draft, "s1");
    expect(draft.run).toMatchObject({ failure: { step: "s0" }, failures: [{ step: "s2" }] });
  });
});
