// The command line of the soak; anything it does not know is an error that shows the usage.
import { join } from "node:path";
import { parseArgs } from "node:util";

export const stores = ["embedded", "redis"] as const;
export type StoreName = (typeof stores)[number];

export type SoakOptions = {
  /** Of load, on each store. */
  readonly minutes: number;
  readonly stores: readonly StoreName[];
  /** Starts per second. */
  readonly rate: number;
  /** How long everything is kept that is kept for days by the settings. */
  readonly windowSeconds: number;
  /** Whether a row per store is added to the track record. */
  readonly appends: boolean;
  readonly jsonPath: string;
  /** Where the page and the plots go. */
  readonly folder: string;
  readonly planted: "nothing" | Planted;
};

const plants = ["leak", "no-trimming"] as const;
export type Planted = (typeof plants)[number];

/** Something on the command line is wrong; the message ends with the usage. */
export class UsageError extends Error {}

type Parsed =
  | { readonly kind: "run"; readonly options: SoakOptions }
  | { readonly kind: "help"; readonly text: string };

/** `words` is the command line without node and the program. */
export function parseSoakOptions(words: readonly string[]): Parsed {
  const values = parseWords(words);
  if (values.help === true) return { kind: "help", text: usage };
  const number = (name: string, text: string | undefined, byDefault: number): number => {
    const value = text === undefined ? byDefault : Number(text);
    return Number.isFinite(value) && value > 0
      ? value
      : fail(`--${name} needs a number above 0, not ${text}`);
  };
  const store = values.store ?? "both";
  const chosen = stores.filter((name) => store === "both" || store === name);
  if (chosen.length === 0) fail(`--store is embedded, redis or both, not ${store}`);
  const planted = plants.find((name) => name === values.plant);
  if (values.plant !== undefined && planted === undefined) fail(`--plant is ${plants.join(" or ")}`);
  if (values.record === true && planted !== undefined)
    fail("--record is for the product as it is, not with --plant");
  const folder = values.out ?? join(import.meta.dirname, "results");
  return {
    kind: "run",
    options: {
      minutes: number("minutes", values.minutes, 30),
      stores: chosen,
      rate: number("rate", values.rate, 10),
      windowSeconds: number("window", values.window, 45),
      appends: values.record === true,
      jsonPath: values.json ?? join(folder, "soak.json"),
      folder,
      planted: planted ?? "nothing",
    },
  };
}

function parseWords(words: readonly string[]) {
  try {
    const { values } = parseArgs({
      args: [...words],
      options: {
        minutes: { type: "string" },
        store: { type: "string" },
        rate: { type: "string" },
        window: { type: "string" },
        record: { type: "boolean" },
        json: { type: "string" },
        out: { type: "string" },
        plant: { type: "string" },
        help: { type: "boolean", short: "h" },
      },
    });
    return values;
  } catch (error) {
    return fail(error instanceof Error ? error.message : String(error), error);
  }
}

function fail(problem: string, cause?: unknown): never {
  throw new UsageError(`${problem}\n\n${usage}`, { cause });
}

const usage = [
  "usage: npm run soak -- [--minutes N] [--store embedded|redis|both] [--rate N] [--window S] [--record]",
  "                       [--json FILE] [--out FOLDER] [--plant leak|no-trimming]",
  "  --minutes N     minutes of steady load on each store (30)",
  "  --store STORE   embedded, redis or both, one after the other (both)",
  "  --rate N        starts per second (10)",
  "  --window S      seconds that records are kept which the settings keep for days (45)",
  "  --record        adds a row per store to the track record in docs/reliability.md",
  "  --json FILE     where the numbers go (soak.json in the folder)",
  "  --out FOLDER    where the page and a plot per store go (soak/results)",
  "  --plant BUG     breaks the product first, to see that it is found",
].join("\n");
