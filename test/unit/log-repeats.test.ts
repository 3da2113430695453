// The same line again and again: a few are written, then one a minute with how many there were; other lines all come through.
import { expect, test } from "vitest";
import { MemoryMetrics } from "../../src/adapters/memory-metrics.ts";
import { limitRepeats } from "../../src/adapters/system/system-log.ts";
import type { LogFields } from "../../src/ports/ports.ts";

function setUp() {
  const lines: Array<readonly [level: string, message: string, fields: LogFields | undefined]> = [];
  const metrics = new MemoryMetrics(10);
  const timers: Array<{ readonly atMs: number; readonly run: () => void }> = [];
  let nowMs = 0;
  const write = (level: string) => (message: string, fields?: LogFields) => {
    lines.push([level, message, fields]);
  };
  const log = limitRepeats(
    { info: write("info"), warn: write("warn"), error: write("error") },
    {
      metrics,
      clock: {
        monotonicMs: () => nowMs,
        timer(ms, run) {
          timers.push({ atMs: nowMs + ms, run });
          return () => {};
        },
      },
    },
  );
  const pass = (ms: number) => {
    nowMs += ms;
    const due = timers.filter(({ atMs }) => atMs <= nowMs);
    for (const timer of due) timers.splice(timers.indexOf(timer), 1);
    for (const { run } of due) run();
  };
  return { log, lines, metrics, pass, timers };
}

test("ten minutes of the same line are a few lines and one a minute, none of them uncounted", () => {
  const { log, lines, metrics, pass } = setUp();
  for (let second = 0; second < 600; second += 1) {
    for (let each = 0; each < 10; each += 1)
      log.warn("a request could not be answered", { cause: "no answer", request: `${second}-${each}` });
    pass(1_000);
  }
  expect(lines.length).toBeLessThanOrEqual(3 + 10);
  const repeated = lines.map(([, , fields]) => Number(fields?.repeated ?? 0));
  const written = repeated.filter((count) => count === 0).length;
  expect(written).toBe(3);
  expect(written + repeated.reduce((sum, count) => sum + count, 0)).toBe(6_000);
  expect(metrics.total("log_repeats_total", { level: "warn" })).toBe(5_997);
});

test("lines that say something else are all written, whatever is repeated meanwhile", () => {
  const { log, lines } = setUp();
  for (let each = 0; each < 20; each += 1) log.error("a sweep failed", { partition: each, cause: "down" });
  log.error("a sweep failed", { partition: 1, cause: "corrupt" });
  log.warn("a sweep failed", { partition: 1, cause: "down" });
  for (const tenant of ["a", "b", "c", "d", "e"]) log.error("a sweep failed", { cause: "down", tenant });
  expect(lines.slice(3)).toEqual([
    ["error", "a sweep failed", { partition: 1, cause: "corrupt" }],
    ["warn", "a sweep failed", { partition: 1, cause: "down" }],
    ...["a", "b", "c", "d", "e"].map((tenant) => ["error", "a sweep failed", { cause: "down", tenant }]),
  ]);
});

test("what was held back is told a minute later although nothing is logged any more, and then forgotten", () => {
  const { log, lines, pass, timers } = setUp();
  for (let each = 0; each < 5; each += 1)
    log.warn("no new master found", { trouble: "refused", tries: each });
  pass(60_000);
  expect(lines.slice(3)).toEqual([
    ["warn", "no new master found", { trouble: "refused", tries: 4, repeated: 2 }],
  ]);
  pass(60_000);
  expect(timers).toEqual([]);
  log.warn("no new master found", { trouble: "refused" });
  expect(lines.at(-1)).toEqual(["warn", "no new master found", { trouble: "refused" }]);
});

test("a line that comes three times a minute is always written", () => {
  const { log, lines, pass } = setUp();
  for (let each = 0; each < 9; each += 1) {
    log.info("slow", {});
    pass(20_000);
  }
  expect(lines).toHaveLength(9);
});
