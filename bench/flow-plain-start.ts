// A start without gates beside the same start before there were any: slices of both trees in turns, each pair a ratio.
import { type ChildProcess, spawn } from "node:child_process";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { typescriptLoader } from "../test/support/child-program.ts";
import { openEarlierTree } from "./earlier-tree.ts";
import { commitBefore, type FlowScale, plainStartName } from "./flow-plan.ts";
import { benchFolder } from "./program.ts";
import type { Progress } from "./progress.ts";
import type { Measured } from "./report.ts";
import { median } from "./statistics.ts";

export type PlainStart =
  | { readonly kind: "measured"; readonly metrics: readonly Measured[] }
  | { readonly kind: "left_out"; readonly reason: string };

/** Slices before the first that counts: a start is compiled anew by V8 for tens of thousands of them. */
const warmUpSlices = 6;

export async function measurePlainStart(
  { pairs, plainStarts }: FlowScale,
  progress: Progress,
): Promise<PlainStart> {
  const tree = await openEarlierTree(commitBefore);
  if (tree.kind === "absent") return { kind: "left_out", reason: tree.reason };
  const folder = benchFolder("flow-starts");
  const now = startProgram(dirname(import.meta.dirname), folder);
  const then = startProgram(tree.folder, folder);
  const seen: Array<{ readonly nowUs: number; readonly thenUs: number }> = [];
  try {
    for (let pair = 0; pair < warmUpSlices + pairs; pair += 1) {
      progress.step(`starts without gates, pair ${pair + 1} of ${warmUpSlices + pairs}`);
      // Neither is always the first: what goes before may leave the machine warmer.
      const isTurned = pair % 2 === 1;
      const first = await (isTurned ? then : now).slice(plainStarts);
      const second = await (isTurned ? now : then).slice(plainStarts);
      const [nowUs, thenUs] = isTurned ? [second, first] : [first, second];
      if (pair >= warmUpSlices) seen.push({ nowUs, thenUs });
    }
  } finally {
    now.stop();
    then.stop();
  }
  const metric = (field: string, unit: string, slices: readonly number[]): Measured => ({
    ...{ name: `${plainStartName}.${field}`, value: median(slices), unit, slices },
  });
  return {
    kind: "measured",
    metrics: [
      metric(
        "ratio",
        "fraction",
        seen.map(({ nowUs, thenUs }) => nowUs / thenUs),
      ),
      metric(
        "us",
        "us",
        seen.map(({ nowUs }) => nowUs),
      ),
      metric(
        "before_us",
        "us",
        seen.map(({ thenUs }) => thenUs),
      ),
    ],
  };
}

/** Kept for all slices, so that all but the first find their code compiled. */
function startProgram(tree: string, folder: string) {
  const program = join(import.meta.dirname, "flow-start-program.ts");
  const words = ["--expose-gc", "--import", typescriptLoader, program, tree, folder];
  const child = spawn(process.execPath, words, { stdio: ["pipe", "pipe", "inherit"] });
  const ended = endOf(child, tree);
  ended.catch(() => {});
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  return {
    async slice(starts: number): Promise<number> {
      child.stdin.write(`${starts}\n`);
      const { value } = await Promise.race([lines.next(), ended]);
      return (JSON.parse(value) as { readonly us: number }).us;
    },
    stop: () => void child.kill("SIGKILL"),
  };
}

/** It never ends by itself. */
function endOf(child: ChildProcess, tree: string): Promise<never> {
  const killAtExit = () => child.kill("SIGKILL");
  process.once("exit", killAtExit);
  return new Promise((_, reject) => {
    child.once("error", reject);
    child.once("close", (code, signal) => {
      process.removeListener("exit", killAtExit);
      reject(new Error(`the starts of ${tree} ended with ${code ?? signal}`));
    });
  });
}
