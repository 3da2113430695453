// One night: the time shared out, the parts one after the other, whatever becomes of each, and a page that grows with them.
import { join } from "node:path";
import { parseArgs } from "node:util";
import { type Part, parts } from "./parts.ts";

export type NightOptions = {
  readonly hours: number;
  readonly folder: string;
  /** Of each part, by its name; 0 leaves it out. */
  readonly shares: ReadonlyMap<string, number>;
};

/** Something on the command line is wrong; the message ends with the usage. */
export class UsageError extends Error {}

type Parsed =
  | { readonly kind: "run"; readonly options: NightOptions }
  | { readonly kind: "help"; readonly text: string };

/** `words` is the command line without node and the program. */
export function parseNightOptions(words: readonly string[], defaultFolder: string): Parsed {
  const values = parseWords(words);
  if (values.help === true) return { kind: "help", text: usage };
  const hours = Number(values.hours ?? 8);
  if (!(hours > 0 && Number.isFinite(hours))) fail(`--hours needs a number above 0, not ${values.hours}`);
  const shares = new Map(parts.map(({ name, share }) => [name, share]));
  for (const text of values.shares?.split(",") ?? []) {
    const [name = "", share = ""] = text.split("=");
    const known = shares.has(name.trim());
    if (!known || share === "" || !(Number(share) >= 0)) fail(`--shares: ${text} is not <part>=<number>`);
    shares.set(name.trim(), Number(share));
  }
  if ([...shares.values()].every((share) => share === 0)) fail("--shares leaves nothing to do");
  return { kind: "run", options: { hours, shares, folder: values.out ?? defaultFolder } };
}

function parseWords(words: readonly string[]) {
  const text = { type: "string" } as const;
  try {
    const help = { type: "boolean", short: "h" } as const;
    return parseArgs({ args: [...words], options: { hours: text, shares: text, out: text, help } }).values;
  } catch (error) {
    return fail(error instanceof Error ? error.message : String(error), error);
  }
}

function fail(problem: string, cause?: unknown): never {
  throw new UsageError(`${problem}\n\n${usage}`, { cause });
}

const usage = [
  "usage: npm run nightly -- [--hours N] [--shares PART=SHARE,...] [--out FOLDER]",
  "  --hours N        how long it takes together (8); 0.1 is a try of 6 minutes",
  `  --shares SHARES  of the time (${parts.map(({ name, share }) => `${name}=${share}`).join(",")}); 0 leaves a part out`,
  "  --out FOLDER     where the page and what the parts leave behind go (scripts/nightly/results/<seed>)",
].join("\n");

export type Task = {
  readonly part: Part;
  /** Given to its command. */
  readonly minutes: number;
  /** When it is stopped: something hangs. */
  readonly minutesMax: number;
  readonly words: readonly string[];
  readonly folder: string;
};

/** Shorter does not start. */
const minutesMin = 0.2;

export function planNight({ hours, shares, folder }: NightOptions, seed: number): readonly Task[] {
  const total = [...shares.values()].reduce((sum, share) => sum + share, 0);
  return parts
    .filter(({ name }) => (shares.get(name) ?? 0) > 0)
    .map((part) => {
      const whole = (hours * 60 * (shares.get(part.name) ?? 0)) / total;
      const minutes = Math.max(minutesMin, whole - part.besidesMinutes);
      const own = join(folder, part.name);
      const words = part.words({ minutes, seed, folder: own });
      return { part, minutes, minutesMax: whole * 1.5 + part.besidesMinutes + 5, words, folder: own };
    });
}

/** How a command ended, and all that it said. */
export type Run = {
  readonly end: "passed" | "failed" | "took too long" | "stopped";
  readonly output: string;
  readonly minutes: number;
};

export type Done = {
  readonly task: Task;
  readonly run: Run;
  readonly did: readonly string[];
  /** What shows each failure again. */
  readonly again: readonly string[];
};

/** Each part gets its turn, whatever became of the one before; what is told after each is the night so far. */
export async function spendNight(
  tasks: readonly Task[],
  perform: (task: Task) => Promise<Run>,
  tell: (done: readonly Done[]) => void,
  stopping: AbortSignal,
): Promise<readonly Done[]> {
  const done: Done[] = [];
  tell(done);
  for (const task of tasks) {
    if (stopping.aborted) break;
    const run = await perform(task).catch((error: unknown): Run => {
      return { end: "failed", output: String(error), minutes: 0 };
    });
    done.push(read(task, run));
    tell(done);
  }
  return done;
}

export function read(task: Task, run: Run): Done {
  const { did, again } = task.part;
  const unique = (pattern: RegExp) => [
    ...new Set([...run.output.matchAll(pattern)].map(([line]) => line.trim())),
  ];
  const found = again === undefined || run.end === "passed" ? [] : unique(again);
  // What was stopped from outside has failed at nothing.
  const isOwn = found.length === 0 && (run.end === "failed" || run.end === "took too long");
  return {
    task,
    run,
    did: unique(did),
    again: isOwn ? [`npm run ${task.words.join(" ")}`] : found,
  };
}
