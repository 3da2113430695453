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
  /** The Node to run everything on, as it was asked for; absent means the one that runs this. */
  readonly node?: string;
  /** What was given of the options that this benchmark alone has. */
  readonly own: Readonly<Record<string, string | boolean | undefined>>;
};

/** By name. `value` stands for the value in the usage; without it the option takes none. */
export type OwnOptions = Readonly<Record<string, { readonly value?: string; readonly help: string }>>;

/** Something on the command line is wrong; the message ends with the usage. */
export class UsageError extends Error {}

/** `words` is the command line without node and the program; gives the help text instead when that is asked for. */
export function parseBenchOptions(
  name: string,
  words: readonly string[],
  ownOptions: OwnOptions = {},
):
  | { readonly kind: "run"; readonly options: BenchOptions }
  | { readonly kind: "help"; readonly text: string } {
  const usage = usageOf(name, ownOptions);
  const { quick, json, assert, node, help, ...own } = parseWords(words, ownOptions, usage);
  if (help === true) return { kind: "help", text: usage };
  const jsonPath = json ?? join(import.meta.dirname, "results", `${name}.json`);
  if (jsonPath === "") throw new UsageError(`--json needs a file name\n\n${usage}`);
  const options: BenchOptions = {
    scale: quick === true ? "quick" : "full",
    jsonPath,
    plotPath: `${jsonPath.replace(/\.json$/, "")}.svg`,
    missedBar: assert === true ? "fails" : "said",
    ...(node === undefined ? {} : { node }),
    own,
  };
  return { kind: "run", options };
}

function parseWords(words: readonly string[], ownOptions: OwnOptions, usage: string) {
  const own = Object.entries(ownOptions).map(([name, { value }]) => {
    const type: "boolean" | "string" = value === undefined ? "boolean" : "string";
    return [name, { type }] as const;
  });
  try {
    const { values } = parseArgs({
      args: [...words],
      options: {
        ...Object.fromEntries(own),
        quick: { type: "boolean" },
        json: { type: "string" },
        assert: { type: "boolean" },
        node: { type: "string" },
        help: { type: "boolean", short: "h" },
      },
    });
    return values;
  } catch (error) {
    const problem = error instanceof Error ? error.message : String(error);
    throw new UsageError(`${problem}\n\n${usage}`, { cause: error });
  }
}

function usageOf(name: string, ownOptions: OwnOptions): string {
  const own = Object.entries(ownOptions).map(([option, { value, help }]) => {
    const words = value === undefined ? `--${option}` : `--${option} ${value}`;
    return { short: ` [${words}]`, line: `  ${words.padEnd(12)} ${help}` };
  });
  return [
    `usage: npm run bench:${name} -- [--quick] [--json FILE] [--assert] [--node V]${own.map(({ short }) => short).join("")}`,
    "  --quick      fewer and shorter slices: under 45 s, for a first look",
    `  --json FILE  write the numbers to FILE (default bench/results/${name}.json) and the plot beside it`,
    "  --assert     exit with 1 when a bar is missed; without it a missed bar is only said",
    "  --node V     run all of it on Node V: 20, 22, 24 or 26",
    ...own.map(({ line }) => line),
  ].join("\n");
}
