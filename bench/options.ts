// The command line that all benchmarks share; anything it does not know is an error that shows the usage.
import { join } from "node:path";
import { parseArgs } from "node:util";

export type BenchOptions = {
  /** `quick` measures the same things with fewer and shorter slices. */
  readonly scale: "full" | "quick";
  /** Where the numbers go; the plot goes beside them. */
  readonly jsonPath: string;
  readonly plotPath: string;
  /** What a missed bar does: on a busy machine it is only said, with --assert it fails the run. */
  readonly missedBar: "said" | "fails";
};

/** Something on the command line is wrong; the message ends with the usage. */
export class UsageError extends Error {}

/** `words` is the command line without node and the program; gives the help text instead when that is asked for. */
export function parseBenchOptions(
  name: string,
  words: readonly string[],
):
  | { readonly kind: "run"; readonly options: BenchOptions }
  | { readonly kind: "help"; readonly text: string } {
  const values = parseWords(name, words);
  if (values.help === true) return { kind: "help", text: usageOf(name) };
  const jsonPath = values.json ?? join(import.meta.dirname, "results", `${name}.json`);
  if (jsonPath === "") throw new UsageError(`--json needs a file name\n\n${usageOf(name)}`);
  const options: BenchOptions = {
    scale: values.quick === true ? "quick" : "full",
    jsonPath,
    plotPath: `${jsonPath.replace(/\.json$/, "")}.svg`,
    missedBar: values.assert === true ? "fails" : "said",
  };
  return { kind: "run", options };
}

function parseWords(name: string, words: readonly string[]) {
  try {
    const { values } = parseArgs({
      args: [...words],
      options: {
        quick: { type: "boolean" },
        json: { type: "string" },
        assert: { type: "boolean" },
        help: { type: "boolean", short: "h" },
      },
    });
    return values;
  } catch (error) {
    const problem = error instanceof Error ? error.message : String(error);
    throw new UsageError(`${problem}\n\n${usageOf(name)}`, { cause: error });
  }
}

function usageOf(name: string): string {
  return [
    `usage: npm run bench:${name} -- [--quick] [--json FILE] [--assert]`,
    "  --quick      fewer and shorter slices: under 45 s, for a first look",
    `  --json FILE  write the numbers to FILE (default bench/results/${name}.json) and the plot beside it`,
    "  --assert     exit with 1 when a bar is missed; without it a missed bar is only said",
  ].join("\n");
}
