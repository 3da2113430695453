// The command line of the chaos run; anything it does not know is an error that shows the usage.
import { join } from "node:path";
import { parseArgs } from "node:util";
import type { Durability } from "./system.ts";

export type ChaosOptions = {
  readonly minutes: number;
  readonly seed: number;
  /** Clients rest so many times as long as usual. */
  readonly restFactor: number;
  readonly durability: Durability;
  /** Names of faults; undefined means all. */
  readonly only: readonly string[] | undefined;
  readonly historyFile: string;
  /** Whether a row is added to the track record. */
  readonly appends: boolean;
  /** `safety`: what a slow machine makes late is not judged. */
  readonly judged: "everything" | "safety";
  readonly mode: "chaos" | "show failover";
  readonly planted: "nothing" | "unfenced-sink";
};

/** Something on the command line is wrong; the message ends with the usage. */
export class UsageError extends Error {}

export type Parsed =
  | { readonly kind: "run"; readonly options: ChaosOptions }
  | { readonly kind: "help"; readonly text: string };

/** `words` is the command line without node and the program; `seed` the one to take when none is given. */
export function parseChaosOptions(words: readonly string[], seed: number, faults: readonly string[]): Parsed {
  const values = parseWords(words, faults);
  if (values.help === true) return { kind: "help", text: usage(faults) };
  const fail = (problem: string): never => {
    throw new UsageError(`${problem}\n\n${usage(faults)}`);
  };
  const number = (name: string, text: string | undefined, byDefault: number): number => {
    const value = text === undefined ? byDefault : Number(text);
    return Number.isFinite(value) && value >= 0 ? value : fail(`--${name} needs a number, not ${text}`);
  };
  const isSafety = values.safety === true;
  const durability = values.durability ?? "replicated";
  if (durability !== "process" && durability !== "replicated")
    return fail("--durability is process or replicated");
  const only = values.only?.split(",").map((name) => name.trim());
  const unknown = only?.find((name) => !faults.includes(name));
  if (unknown !== undefined) return fail(`--only: there is no fault ${JSON.stringify(unknown)}`);
  const planted = values.plant ?? "nothing";
  if (planted !== "nothing" && planted !== "unfenced-sink") return fail("--plant is unfenced-sink");
  const chosenSeed = number("seed", values.seed, seed);
  return {
    kind: "run",
    options: {
      minutes: number("minutes", values.minutes, isSafety ? 1 : 3),
      seed: chosenSeed,
      restFactor: number("rest", values.rest, 1),
      durability,
      only,
      historyFile:
        values.history ?? join(import.meta.dirname, "histories", `${durability}-${chosenSeed}.jsonl`),
      appends: values.record === true,
      judged: isSafety ? "safety" : "everything",
      mode: values["show-failover"] === true ? "show failover" : "chaos",
      planted,
    },
  };
}

function parseWords(words: readonly string[], faults: readonly string[]) {
  try {
    const { values } = parseArgs({
      args: [...words],
      options: {
        minutes: { type: "string" },
        seed: { type: "string" },
        rest: { type: "string" },
        durability: { type: "string" },
        only: { type: "string" },
        history: { type: "string" },
        record: { type: "boolean" },
        safety: { type: "boolean" },
        "show-failover": { type: "boolean" },
        plant: { type: "string" },
        help: { type: "boolean", short: "h" },
      },
    });
    return values;
  } catch (error) {
    const problem = error instanceof Error ? error.message : String(error);
    throw new UsageError(`${problem}\n\n${usage(faults)}`, { cause: error });
  }
}

function usage(faults: readonly string[]): string {
  return [
    "usage: npm run chaos -- [--minutes N] [--seed S] [--rest F] [--durability process|replicated] [--only FAULT,FAULT]",
    "                        [--history FILE] [--record] [--safety] [--plant unfenced-sink]",
    "       npm run chaos -- --show-failover",
    "  --minutes N        how long faults strike (3; with --safety 1); starting and reading everything comes on top",
    "  --seed S           which faults strike whom, in which order (a new one each time)",
    "  --rest F           clients rest F times as long between requests (1), for a long run that leaves the machine usable",
    "  --durability D     what the store promises of an answer (replicated)",
    "  --only FAULTS      these faults only, with commas between",
    "  --history FILE     where the history goes (chaos/histories/<durability>-<seed>.jsonl)",
    "  --record           adds a row to the track record in docs/reliability.md",
    "  --safety           judges safety only: nothing that a slow machine makes late; 1 minute by default",
    "  --show-failover    shows what a failover loses at each durability, and nothing else",
    "  --plant BUG        breaks what guards the world outside, to see that it is found",
    `faults: ${faults.join(", ")}`,
  ].join("\n");
}
