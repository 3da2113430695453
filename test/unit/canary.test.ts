// Canaries, decided purely: guards as people write them, windows, what breaks a guard, and what is kept in the end.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  type Canary,
  type CanaryBook,
  filledWindows,
  judgeCanary,
  judgeEnd,
  missing,
  type SampledWindow,
  standings,
} from "../../src/domain/canary.ts";
import {
  type ArmSamples,
  type BothArms,
  bucketOf,
  countOf,
  guardText,
  type Histogram,
  judgeGuard,
  mergedArms,
  mergedHistogram,
  noSamples,
  noSamplesAtAll,
  percentileMs,
  readGuard,
  withDefaultGuards,
} from "../../src/domain/canary-guard.ts";

fc.configureGlobal({ seed: 1 });

function histogram(durationsMs: readonly number[]): Histogram {
  const counts: Record<string, number> = {};
  for (const ms of durationsMs) counts[bucketOf(ms)] = (counts[bucketOf(ms)] ?? 0) + 1;
  return counts;
}

/** Results that all took this long, and found their run busy so often. */
function arm(results: number, latencyMs: number, busyTries = 0): ArmSamples {
  const times = Array.from({ length: results }, () => latencyMs);
  const [first, second, later] = [busyTries === 0, busyTries === 1, busyTries > 1].map((is) =>
    is ? results : 0,
  );
  return {
    ...noSamples,
    results,
    busyRetries: results * busyTries,
    acquired: [first ?? 0, second ?? 0, later ?? 0],
    lockWait: histogram(times.map((ms) => (busyTries === 0 ? 0 : ms))),
    latency: histogram(times),
  };
}

const good: BothArms = { canary: arm(30, 4), control: arm(30, 500, 3) };
const bad: BothArms = { canary: arm(30, 500, 3), control: arm(30, 4) };
const equal: BothArms = { canary: arm(30, 10), control: arm(30, 10) };

function bookOf(windows: readonly BothArms[]): CanaryBook {
  const sampled: SampledWindow[] = windows.map((arms, window) => ({ window, arms }));
  return { windows: sampled, totals: windows.reduce(mergedArms, noSamplesAtAll) };
}

const running: Canary = {
  id: "canary-1",
  policies: { "results.strategy": "retry" },
  percent: 10,
  startedBy: "ann",
  startedAtMs: 0,
  endsAtMs: 600_000,
  windowMs: 60_000,
  guards: withDefaultGuards([], ["results"]),
  samplesMin: 80,
  windowsInARow: 3,
  state: "running",
};

const during = (book: CanaryBook, canary = running) => judgeCanary(canary, book, 300_000, 0);

describe("a histogram", () => {
  const durations = fc.array(fc.double({ min: 0.1, max: 500_000, noNaN: true }), {
    minLength: 1,
    maxLength: 200,
  });

  test("tells percentiles at most a bucket from the truth", () => {
    fc.assert(
      fc.property(durations, fc.constantFrom(0.5, 0.95, 0.99), (times, fraction) => {
        const sorted = times.toSorted((one, other) => one - other);
        const truth = sorted[Math.ceil(sorted.length * fraction) - 1] ?? 0;
        const told = percentileMs(histogram(times), fraction) ?? Number.NaN;
        expect(told).toBeGreaterThan(truth / 1.05 - 0.1);
        expect(told).toBeLessThan(truth * 1.05 + 0.1);
      }),
    );
  });

  test("of two processes is the same as one of both", () => {
    fc.assert(
      fc.property(durations, durations, (one, other) => {
        expect(mergedHistogram(histogram(one), histogram(other))).toEqual(histogram([...one, ...other]));
      }),
    );
    expect(countOf(histogram([1, 2, 3]))).toBe(3);
    expect(percentileMs({}, 0.95)).toBeUndefined();
  });
});

describe("a guard", () => {
  test.each([
    "result_latency_p95<=1.2x",
    "lock_wait_p99<=250ms",
    "start_unavailable<=1%",
    "first_retry_success>=0.9x",
    "busy_retries_per_result<=0.5",
  ])("%s is read and told again", (text) => {
    const read = readGuard(text);
    expect(read.kind === "guard" && guardText(read.guard)).toBe(text);
  });

  test.each([
    { text: "latency<=1.2x", at: 1, problem: /no measure "latency": it must be one of busy_retries/ },
    { text: "  result_latency_p95 < 1.2x", at: 22, problem: /expected <= or >=/ },
    { text: "result_latency_p95<=fast", at: 21, problem: /such as 1.2x or 250ms, not "fast"/ },
    { text: "result_latency_p95<=5%", at: 21, problem: /such as 1.2x or 250ms/ },
    { text: "busy_retries_per_result<=3ms", at: 26, problem: /such as 1.1x or 0.5/ },
    { text: "lock_wait_p95<=0x", at: 16, problem: /above 0/ },
    { text: "", at: 1, problem: /no measure/ },
  ])("that says $text is refused with its place", ({ text, at, problem }) => {
    const read = readGuard(text);
    expect(read).toMatchObject({ kind: "invalid", at });
    expect(read.kind === "invalid" && read.problem).toMatch(problem);
  });

  function verdict(text: string, arms: BothArms) {
    const read = readGuard(text);
    if (read.kind !== "guard") throw new Error(read.problem);
    return judgeGuard(read.guard, arms).verdict;
  }

  test("compares with the other side, and an absolute one does not", () => {
    expect(verdict("result_latency_p95<=1.25x", bad)).toBe("broken");
    expect(verdict("result_latency_p95<=1.25x", good)).toBe("holds");
    expect(verdict("result_latency_p95<=250ms", bad)).toBe("broken");
    expect(verdict("result_latency_p95<=600ms", bad)).toBe("holds");
    expect(verdict("result_latency_p95<=2s", bad)).toBe("holds");
  });

  test("is not broken by a difference that is worth nothing", () => {
    const tiny = { canary: arm(30, 0.9), control: arm(30, 0.2) };
    expect(verdict("result_latency_p95<=1.25x", tiny)).toBe("holds");
    const more = { canary: arm(30, 9), control: arm(30, 0.2) };
    expect(verdict("result_latency_p95<=1.25x", more)).toBe("broken");
  });

  test("against a side without any busy run is broken by a side that has them", () => {
    expect(verdict("busy_retries_per_result<=1.1x", bad)).toBe("broken");
    expect(verdict("first_retry_success>=0.9x", bad)).toBe("broken");
    expect(verdict("first_retry_success>=0.9x", good)).toBe("unknown");
  });

  test("says nothing without samples", () => {
    expect(verdict("result_latency_p95<=1.25x", noSamplesAtAll)).toBe("unknown");
    expect(verdict("start_unavailable<=1%", good)).toBe("unknown");
  });

  test("of results looks at p95 and p99 of the wait for a run, unless others are given", () => {
    const guards = withDefaultGuards([], ["results"]).map(guardText);
    expect(guards).toEqual(expect.arrayContaining(["lock_wait_p95<=1.25x", "lock_wait_p99<=1.5x"]));
  });

  test("given by hand replaces the usual one of its measure and no other", () => {
    const read = readGuard("result_latency_p95<=9x");
    const guards = withDefaultGuards(read.kind === "guard" ? [read.guard] : [], ["results"]).map(guardText);
    expect(guards).toContain("result_latency_p95<=9x");
    expect(guards).not.toContain("result_latency_p95<=1.25x");
    expect(guards).toHaveLength(5);
  });
});

describe("while a canary runs", () => {
  test("a guard that is broken in three windows in a row rolls it back, and says why", () => {
    const verdict = during(bookOf([equal, bad, bad, bad]));
    expect(verdict.kind).toBe("roll_back");
    const reason = verdict.kind === "roll_back" ? verdict.reason : "";
    expect(reason).toContain("busy_retries_per_result was 3.00 against 0.00 of control (at most 1.1x)");
    expect(reason).toContain("3 windows in a row");
    expect(reason).toContain("120 canary and 120 control results");
  });

  test.each([
    { title: "two windows are not enough", windows: [equal, equal, bad, bad] },
    { title: "a window in which it held begins anew", windows: [bad, bad, equal, bad, bad] },
    { title: "nor are three with too few samples in all", windows: [bad, bad] },
  ])("$title", ({ windows }) => {
    expect(during(bookOf(windows)).kind).toBe("go_on");
  });

  test("nothing is decided before both sides have enough samples, however bad they are", () => {
    const thin = { canary: arm(20, 500, 3), control: arm(300, 4) };
    expect(during(bookOf([thin, thin, thin])).kind).toBe("go_on");
    expect(during(bookOf([thin, thin, thin, thin])).kind).toBe("roll_back");
  });

  test("with little traffic several windows count as one", () => {
    const few = { canary: arm(2, 500, 3), control: arm(2, 4) };
    const book = bookOf(Array.from({ length: 11 }, () => few));
    const canary = { ...running, samplesMin: 20 };
    expect(filledWindows(book.windows, "results", 4)).toHaveLength(5);
    expect(standings({ ...running, samplesMin: 80 }, book)[0]?.brokenInARow).toBe(5);
    expect(during(book, canary).kind).toBe("roll_back");
    expect(during(bookOf(Array.from({ length: 5 }, () => few)), { ...running, samplesMin: 80 }).kind).toBe(
      "go_on",
    );
  });

  test("what is missing is told, until nothing is", () => {
    expect(missing(running, bookOf([{ canary: arm(5, 1), control: arm(90, 1) }]))).toEqual([
      "75 more results of the side canary",
      "2 more windows with enough results",
    ]);
    expect(missing(running, bookOf([equal, equal, equal]))).toEqual([]);
  });
});

describe("in the end a canary", () => {
  const ends = (arms: BothArms, canary: Partial<Canary> = {}) =>
    judgeEnd({ ...running, ...canary }, { windows: [], totals: arms });
  const many = (arms: BothArms) => [arms, arms, arms].reduce(mergedArms, noSamplesAtAll);

  test("is kept when busy retries and latency both moved the right way", () => {
    const verdict = ends(many(good));
    expect(verdict).toMatchObject({ kind: "keep" });
    expect(verdict.kind === "keep" && verdict.reason).toContain("busy_retries_per_result 0.00 against 3.00");
  });

  test.each([
    { title: "both got worse", arms: many(bad), reason: /busy_retries_per_result got worse/ },
    {
      title: "the latency got worse, whatever became of the retries",
      arms: many({ canary: arm(30, 700), control: arm(30, 500, 3) }),
      reason: /result_latency_p95 got worse/,
    },
    {
      title: "the retries got worse, whatever became of the latency",
      arms: many({ canary: arm(30, 4, 3), control: arm(30, 500) }),
      reason: /busy_retries_per_result got worse/,
    },
  ])("is rolled back when $title", ({ arms, reason }) => {
    const verdict = ends(arms);
    expect(verdict.kind).toBe("roll_back");
    expect(verdict.kind === "roll_back" && verdict.reason).toMatch(reason);
  });

  test.each([
    { title: "nothing has changed", arms: many(equal), reason: /busy_retries_per_result is not clearly/ },
    {
      title: "nobody found a busy run, however much the latency improved: nothing is less than none",
      arms: many({ canary: arm(30, 4), control: arm(30, 500) }),
      reason: /busy_retries_per_result is not clearly better: .* 0\.00 against 0\.00, result_latency_p95 4/,
    },
    {
      title: "only the retries improved",
      arms: many({ canary: arm(30, 500, 1), control: arm(30, 500, 3) }),
      reason: /result_latency_p95 is not clearly better/,
    },
    {
      title: "one improved by less than 5 %",
      arms: {
        canary: { ...arm(100, 4, 1), busyRetries: 96 },
        control: { ...arm(100, 500, 1), busyRetries: 100 },
      },
      reason: /busy_retries_per_result is not clearly better: .* 0\.96 against 1\.00/,
    },
    {
      title: "there were too few samples",
      arms: good,
      reason: /30 canary and 30 control results, 80 of each/,
    },
    {
      title: "a measure is unknown",
      arms: many({ canary: { ...arm(30, 4), latency: {} }, control: arm(30, 500, 3) }),
      reason: /result_latency_p95 is not clearly better: .* unknown against/,
    },
  ])("is inconclusive when $title", ({ arms, reason }) => {
    const verdict = ends(arms);
    expect(verdict.kind).toBe("inconclusive");
    expect(verdict.kind === "inconclusive" && verdict.reason).toMatch(reason);
  });

  test("is kept when both improved by exactly 5 %", () => {
    const arms = {
      canary: { ...arm(100, 4, 1), busyRetries: 95 },
      control: { ...arm(100, 500, 1), busyRetries: 100 },
    };
    expect(ends(arms)).toMatchObject({
      kind: "keep",
      reason: expect.stringContaining("both measures got better"),
    });
  });

  test("of admission is judged by its starts", () => {
    const starts = (amount: number, waitMs: number, busy: number): ArmSamples => ({
      ...noSamples,
      starts: amount,
      startBusyRetries: amount * busy,
      startWait: histogram(Array.from({ length: amount }, () => waitMs)),
    });
    const policies = { "admission.strategy": "atomic" } as const;
    const better = { canary: starts(90, 4, 0), control: starts(90, 300, 5) };
    expect(ends(better, { policies }).kind).toBe("keep");
    expect(ends({ canary: better.control, control: better.canary }, { policies }).kind).toBe("roll_back");
    expect(ends(many(good), { policies }).kind).toBe("inconclusive");
  });

  test("is not judged before its end, and not before late samples can have come", () => {
    const book = bookOf([good, good, good]);
    expect(judgeCanary(running, book, 599_999, 0).kind).toBe("go_on");
    expect(judgeCanary(running, book, 600_000, 1_000).kind).toBe("go_on");
    expect(judgeCanary(running, book, 601_000, 1_000).kind).toBe("keep");
  });
});
