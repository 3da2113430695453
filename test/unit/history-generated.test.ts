// Histories of a system without mistakes are accepted, however its clients overlap and lose answers; one wrong answer is found.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { checkHistory } from "../../proof/history/check-history.ts";
import { assembleHistory } from "../../proof/history/history.ts";
import type { HistoryRecord } from "../../proof/history/record.ts";
import { type GeneratedOptions, generateHistory } from "../support/generated-history.ts";

type Of<Type extends HistoryRecord["type"]> = Extract<HistoryRecord, { readonly type: Type }>;

function verdictOf(records: readonly HistoryRecord[]) {
  const assembled = assembleHistory(records);
  if (assembled.kind === "broken") throw new Error(assembled.problem);
  return checkHistory(assembled.history);
}

const seed = fc.integer({ min: 1, max: 1_000_000 });
const busy: fc.Arbitrary<GeneratedOptions> = fc.record({
  seed,
  operations: fc.integer({ min: 20, max: 400 }),
  clients: fc.integer({ min: 1, max: 12 }),
  unknownFraction: fc.constantFrom(0, 0.05, 0.2, 0.4),
  cancelledTenants: fc.integer({ min: 1, max: 3 }),
});
/** Nothing overlaps and nothing is lost: whatever is changed is wrong. */
const orderly: fc.Arbitrary<GeneratedOptions> = fc.record({
  seed,
  operations: fc.constant(300),
  clients: fc.constant(1),
  unknownFraction: fc.constant(0),
  cancelledTenants: fc.constant(1),
});

test("a system without mistakes is found to have none", () => {
  fc.assert(
    fc.property(busy, (options) => {
      const { findings, undecided } = verdictOf(generateHistory(options));
      expect({ findings, undecided }).toEqual({ findings: [], undecided: [] });
    }),
    { numRuns: 60, seed: 6 },
  );
});

test("answers that nobody recorded make nothing look wrong", () => {
  fc.assert(
    fc.property(busy, fc.integer({ min: 2, max: 9 }), (options, every) => {
      const records = generateHistory(options).filter(
        (record) =>
          !(record.type === "ok" || record.type === "fail") || Number(record.id.split("-")[1]) % every !== 0,
      );
      expect(verdictOf(records).findings).toEqual([]);
    }),
    { numRuns: 50, seed: 6 },
  );
});

type Pair<Name extends string> = {
  readonly invoke: Of<"invoke"> & { readonly operation: Name };
  readonly ok: Of<"ok">;
};

/** The operations of this name that were done. */
function donePairs<Name extends Of<"invoke">["operation"]>(
  records: readonly HistoryRecord[],
  name: Name,
): ReadonlyArray<Pair<Name>> {
  const completions = new Map(
    records.flatMap((record) => (record.type === "ok" ? [[record.id, record] as const] : [])),
  );
  return records.flatMap((record) => {
    const ok = record.type === "invoke" ? completions.get(record.id) : undefined;
    if (record.type !== "invoke" || record.operation !== name || ok === undefined) return [];
    return [{ invoke: record as Pair<Name>["invoke"], ok }];
  });
}

function replace(records: readonly HistoryRecord[], old: HistoryRecord, mended: HistoryRecord) {
  return records.map((record) => (record === old ? mended : record));
}

/** The same history with one answer changed, or undefined when it has none to change. */
type Mutation = (records: readonly HistoryRecord[]) => readonly HistoryRecord[] | undefined;

const otherRunForKey: Mutation = (records) => {
  const starts = donePairs(records, "start").filter(({ invoke }) => invoke.key !== undefined);
  const again = starts.find(({ ok }) => ok.answer.kind === "run" && ok.answer.replayed);
  const first = starts.find(
    ({ invoke, ok }) =>
      again !== undefined &&
      invoke.key === again.invoke.key &&
      invoke.tenant === again.invoke.tenant &&
      ok !== again.ok,
  );
  if (again === undefined || first === undefined) return undefined;
  return replace(records, again.ok, {
    ...again.ok,
    answer: { kind: "run", runId: "run_00_another", replayed: true },
  });
};

const secondDecision: Mutation = (records) => {
  const [first] = donePairs(records, "decide");
  if (first === undefined) return undefined;
  const decision = first.invoke.decision === "approved" ? "rejected" : "approved";
  return [
    ...records,
    { ...first.invoke, id: "second", decision, atUs: first.ok.atUs + 10 },
    { type: "ok", id: "second", atUs: first.ok.atUs + 20, answer: { kind: "decided", decision } },
  ];
};

const smallerFence: Mutation = (records) => {
  const grants = donePairs(records, "acquire");
  for (const later of grants) {
    const earlier = grants.find(({ ok }) => ok.atUs < later.invoke.atUs);
    if (earlier?.ok.answer.kind !== "lock") continue;
    const answer = { kind: "lock", fence: earlier.ok.answer.fence - 1 } as const;
    return replace(records, later.ok, { ...later.ok, answer });
  }
  return undefined;
};

const lostRun: Mutation = (records) => {
  const [started] = donePairs(records, "start");
  const runId = started?.ok.answer.kind === "run" ? started.ok.answer.runId : undefined;
  const last = records.find(
    (record) => record.type === "final" && record.of === "run" && record.runId === runId,
  );
  if (last?.type !== "final" || last.of !== "run") return undefined;
  return replace(records, last, { ...last, status: "missing" });
};

const otherNonce: Mutation = (records) => {
  const last = records.find(
    (record) => record.type === "final" && record.of === "run" && record.completed.length > 0,
  );
  if (last?.type !== "final" || last.of !== "run") return undefined;
  return replace(records, last, { ...last, nonces: { prepare: "another" } });
};

const extraAdmission: Mutation = (records) => {
  const isLedger = new Set(
    records.flatMap((record) =>
      record.type === "invoke" && record.operation === "start" && record.tenant !== "work" ? [record.id] : [],
    ),
  );
  const full = records.find(
    (record) =>
      record.type === "fail" && record.code === "max_concurrent_runs_reached" && isLedger.has(record.id),
  );
  if (full?.type !== "fail") return undefined;
  const answer = { kind: "run", runId: "run_00_another", replayed: false } as const;
  return replace(records, full, { type: "ok", id: full.id, atUs: full.atUs, answer });
};

const freeRefusal: Mutation = (records) => {
  const made = donePairs(records, "start").find(
    ({ invoke, ok }) => invoke.tenant !== "work" && ok.answer.kind === "run" && !ok.answer.replayed,
  );
  if (made === undefined) return undefined;
  const { id, atUs } = made.ok;
  return replace(records, made.ok, { type: "fail", id, atUs, code: "max_concurrent_runs_reached" });
};

describe("one wrong answer is found", () => {
  const mutations: ReadonlyArray<readonly [string, string, Mutation, fc.Arbitrary<GeneratedOptions>]> = [
    ["another run for a key", "INV-6", otherRunForKey, busy],
    ["a second decision", "INV-25", secondDecision, busy],
    ["a smaller fence", "INV-11", smallerFence, busy],
    ["a run that is gone", "INV-18", lostRun, busy],
    ["a result that nobody reported", "INV-22", otherNonce, busy],
    ["an admission beyond the limit", "INV-19", extraAdmission, orderly],
    ["a refusal with a place free", "INV-19", freeRefusal, orderly],
  ];

  test.each(mutations)("%s: %s", (_, invariant, mutate, options) => {
    let found = 0;
    fc.assert(
      fc.property(options, (drawn) => {
        const mutated = mutate(generateHistory(drawn));
        if (mutated === undefined) return;
        found += 1;
        const { findings, kind } = verdictOf(mutated);
        expect(kind).toBe("broken");
        expect(findings.map((finding) => finding.invariant)).toContain(invariant);
      }),
      { numRuns: 30, seed: 6 },
    );
    expect(found).toBeGreaterThan(5);
  });
});
