// The same seed gives the same trace: again, in another process, and whatever the number of workers.
import { expect, test } from "vitest";
import { type BatchReport, simulateBatch } from "../../proof/simulation/command/batch.ts";
import { runBatch, runChunks } from "../../proof/simulation/command/worker-pool.ts";
import { simulateSeed } from "../../proof/simulation/simulate.ts";

const seeds = 50;
const timeoutMs = 300_000;

const comparable = ({ marks, ...report }: BatchReport) => ({ ...report, marks: marks.counts() });

test(
  `seeds 1 to ${seeds} give the same traces twice, here and in one or three other processes`,
  async () => {
    const traces = async () => {
      const found: string[] = [];
      const onSeed = ({ hash }: { readonly hash: string }) => {
        found.push(hash);
        return "go on" as const;
      };
      const report = await simulateBatch({ from: 1, seeds, onSeed });
      return { found, report: comparable(report) };
    };
    const first = await traces();
    expect(await traces()).toEqual(first);
    expect(new Set(first.found).size).toBe(seeds);
    for (const workers of [1, 3]) {
      expect(comparable(await runBatch({ from: 1, seeds, workers }))).toEqual(first.report);
    }
  },
  timeoutMs,
);

test(
  "watching a seed does not change it",
  async () => {
    for (const seed of [2, 3, 5]) {
      const [lines, executions] = [[] as string[], [] as string[]];
      const watched = await simulateSeed(seed, {
        onNote: (line) => lines.push(line),
        onExecution: ({ name }) => executions.push(name),
      });
      expect(watched).toEqual(await simulateSeed(seed));
      expect(executions.length).toBe(watched.operations);
      expect(lines.length).toBeGreaterThan(executions.length);
    }
  },
  timeoutMs,
);

test("a batch with a bug ends at the first seed that breaks, whatever the workers had done by then", async () => {
  const ends = async (workers: number) => {
    const { seeds: done, broken } = await runBatch({
      from: 1,
      seeds: 40,
      workers,
      work: { bug: "slot_kept_after_end" },
      onSeed: ({ violation }) => (violation === undefined ? "go on" : "stop"),
    });
    return { done, broken };
  };
  const alone = await ends(1);
  expect(alone.broken).toHaveLength(1);
  expect(await ends(3)).toEqual(alone);
});

test("a worker that fails is an error that names its seeds", async () => {
  const chunks = [{ from: 7, seeds: 1, work: { bug: "unheard_of" } }];
  const work = runChunks({ workers: 1, next: () => chunks.shift(), onReport: () => {} });
  await expect(work).rejects.toThrow("a worker ended with exit code 1 during seeds from 7 on");
});
