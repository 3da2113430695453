// Which mutants are judged, what is believed of an earlier run, and the reviewed list of those that no test can notice.
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { areaNames, areaOf } from "../../proof/mutation/areas.ts";
import { choose, keepJudgements } from "../../proof/mutation/choose.ts";
import { mutantsOf } from "../../proof/mutation/mutation.ts";
import { findQuick, readQuick } from "../../proof/mutation/quick.ts";
import { isMutant, readEquivalents, summarize } from "../../proof/mutation/report.ts";
import { typescriptMutations } from "../../proof/mutation/typescript-mutations.ts";

const root = dirname(dirname(import.meta.dirname));
const source = Array.from({ length: 40 }, (_, index) => `if (a${index} < ${index}) f(${index});`).join("\n");
const all = mutantsOf(source, typescriptMutations("src/domain/a.ts", source));
const whole = { index: 1, count: 1 };
const idsOf = (mutants: readonly { readonly id: string }[]) => mutants.map(({ id }) => id);

describe("a sample", () => {
  test("is the same for the same seed, and another for another", () => {
    const first = choose(all, { seed: "a", sample: 30, shard: whole });
    expect(idsOf(choose([...all].reverse(), { seed: "a", sample: 30, shard: whole }))).toEqual(idsOf(first));
    expect(idsOf(choose(all, { seed: "b", sample: 30, shard: whole }))).not.toEqual(idsOf(first));
  });

  test("is the beginning of a larger one", () => {
    const small = idsOf(choose(all, { seed: "a", sample: 10, shard: whole }));
    expect(idsOf(choose(all, { seed: "a", sample: 30, shard: whole })).slice(0, 10)).toEqual(small);
  });

  test("is shared by shards, each mutant by one of them", () => {
    const shards = [1, 2, 3].map((index) =>
      choose(all, { seed: "a", sample: 50, shard: { index, count: 3 } }),
    );
    const sample = idsOf(choose(all, { seed: "a", sample: 50, shard: whole }));
    expect(shards.flatMap(idsOf).sort()).toEqual(sample.sort());
    expect(shards.map(({ length }) => length)).toEqual([17, 17, 16]);
  });

  test("has only changed lines where these are given", () => {
    const chosen = choose(all, { seed: "a", shard: whole, lines: new Set(["src/domain/a.ts:7"]) });
    expect(new Set(chosen.map(({ mutation }) => mutation.line))).toEqual(new Set([7]));
    expect(chosen.length).toBeGreaterThan(3);
  });
});

describe("judgements of an earlier run", () => {
  function place() {
    const folder = mkdtempSync(join(tmpdir(), "interlock-judgements-"));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const common = { path: join(folder, "kept.jsonl"), sources: "one", withTestFiles: false };
    const state = keepJudgements({ ...common, resume: false });
    state.add("a", { kind: "killed", by: "a test" });
    state.add("b", { kind: "survived", reached: 2 });
    return common;
  }

  test("are known when it is resumed, and forgotten when it is not", () => {
    const common = place();
    expect([...keepJudgements({ ...common, resume: true }).known.keys()]).toEqual(["a", "b"]);
    expect([...keepJudgements({ ...common, resume: false }).known.keys()]).toEqual([]);
    expect([...keepJudgements({ ...common, resume: true }).known.keys()]).toEqual([]);
  });

  test("are not believed of other sources, nor of a survivor that has met fewer tests", () => {
    const common = place();
    expect(keepJudgements({ ...common, resume: true, sources: "two" }).known.size).toBe(0);
    expect([...keepJudgements({ ...common, resume: true, withTestFiles: true }).known.keys()]).toEqual(["a"]);
  });
});

describe("the report", () => {
  test("ranks survivors by how many tests pass them, and counts neither equivalents nor what does not compile", () => {
    const [first, second, third, fourth, fifth] = all;
    if (!first || !second || !third || !fourth || !fifth) throw new Error("too few");
    const { file, kind } = fifth.mutation;
    const equivalent = { area: "domain", file, kind, was: fifth.was, is: fifth.is, reason: "same" } as const;
    const judged = [
      { mutant: first, judgement: { kind: "survived", reached: 1 } },
      { mutant: second, judgement: { kind: "survived", reached: 9 } },
      { mutant: third, judgement: { kind: "killed", by: "a test" } },
      { mutant: fourth, judgement: { kind: "invalid" } },
      { mutant: fifth, judgement: { kind: "survived", reached: 3 } },
    ] as const;
    const summary = summarize(areaOf("domain"), judged, [equivalent]);
    expect(summary).toMatchObject({ judged: 5, killed: 1, survived: 2, equivalent: 1, invalid: 1 });
    expect(summary.score).toBeCloseTo(1 / 3);
    expect(idsOf(summary.survivors)).toEqual([second.id, first.id]);
    expect(summarize(areaOf("sdk"), judged, []).judged).toBe(0);
  });
});

describe("the quick sample", () => {
  const known = all.slice(0, 10).map(({ mutation: { file, kind }, was, is, occurrence }) => ({
    ...{ area: "domain", file, kind, was, is, occurrence, by: "test/unit/a.test.ts" },
  })) as ReturnType<typeof readQuick>;

  test("leaves out what has been rewritten since, and is refused when that is more than a fifth", () => {
    const found = findQuick(known, all.slice(2));
    expect(idsOf(found.map(({ mutant }) => mutant))).toEqual(idsOf(all.slice(2, 10)));
    expect(() => findQuick(known, all.slice(3))).toThrow("Only 7 of the 10");
  });

  test("names test files that there are", () => {
    const files = readQuick().flatMap(({ area, by }) => (area === "lua" ? [] : [by]));
    expect(files.filter((path) => !existsSync(join(root, path)))).toEqual([]);
    expect(files.length).toBeGreaterThan(40);
  });
});

describe("the list of equivalents", () => {
  const equivalents = readEquivalents();

  test.each(areaNames)(
    "has mutants of the code as it is, at most 5 % of those of %s, with a reason each",
    (name) => {
      const mutants = areaOf(name).mutants();
      const own = equivalents.filter(({ area }) => area === name);
      const matched = own.map((known) => ({
        known,
        count: mutants.filter((each) => isMutant(known, each)).length,
      }));
      expect(matched.filter(({ count }) => count !== 1)).toEqual([]);
      expect(own.filter(({ reason }) => !/^[A-Z].{20,}\.$/.test(reason))).toEqual([]);
      expect(own.length).toBeLessThanOrEqual(mutants.length * 0.05);
    },
  );
});
