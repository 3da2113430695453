// A program that a chaos run has started: its latest output, its end, and signals by its own process id. None outlives the run.
import { type ChildProcess, spawn } from "node:child_process";
import { plainEnvironment } from "../test/support/program.ts";

export type Child = {
  readonly pid: number;
  /** The last lines of its output and errors. */
  output(): string;
  /** The first line that looks like this; fails when the program ends, or the deadline passes, before it. */
  says(pattern: RegExp, withinMs?: number): Promise<string>;
  readonly ended: Promise<number | NodeJS.Signals>;
  hasEnded(): boolean;
  signal(name: NodeJS.Signals): void;
  /** SIGKILL; resolves when it is gone. */
  kill(): Promise<void>;
};

export type ChildOptions = {
  readonly name: string;
  /** A file, compiled or in TypeScript, and its arguments. */
  readonly args: readonly string[];
  /** Names without INTERLOCK_. */
  readonly settings?: Readonly<Record<string, string>>;
};

const running = new Set<ChildProcess>();
process.once("exit", () => {
  for (const child of running) child.kill("SIGKILL");
});

const outputMax = 20_000;
/** Two processors start a dozen programs at once, beside whatever else they do. */
const saysWithinMs = 60_000;

export function startChild({ name, args, settings = {} }: ChildOptions): Child {
  const named = Object.entries(settings).map(([setting, value]) => [`INTERLOCK_${setting}`, value]);
  const loader = args[0]?.endsWith(".ts") ? ["--import", import.meta.resolve("tsx")] : [];
  const child = spawn(process.execPath, [...loader, ...args], {
    env: { ...plainEnvironment(), ...Object.fromEntries(named) },
    stdio: ["ignore", "pipe", "pipe"],
  });
  running.add(child);
  let output = "";
  let isOver = false;
  const watchers = new Set<() => void>();
  const tell = () => {
    for (const watcher of [...watchers]) watcher();
  };
  for (const stream of [child.stdout, child.stderr]) {
    stream.on("data", (chunk: Buffer) => {
      output = `${output}${chunk.toString()}`.slice(-outputMax);
      tell();
    });
  }
  const ended = new Promise<number | NodeJS.Signals>((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (code, signal) => {
      isOver = true;
      running.delete(child);
      resolve(code ?? signal ?? "SIGKILL");
      tell();
    });
  });
  return {
    pid: child.pid as number,
    output: () => output,
    ended,
    hasEnded: () => isOver,
    signal: (signal) => {
      child.kill(signal);
    },
    async kill() {
      child.kill("SIGKILL");
      await ended;
    },
    says: (pattern, withinMs = saysWithinMs) =>
      new Promise((resolve, reject) => {
        const finish = (settle: () => void) => {
          clearTimeout(timer);
          watchers.delete(look);
          settle();
        };
        const look = () => {
          const [line] = pattern.exec(output) ?? [];
          if (line !== undefined) finish(() => resolve(line));
          else if (isOver) finish(() => reject(new Error(`${name} ended:\n${output}`)));
        };
        const late = () => reject(new Error(`${name} did not say ${String(pattern)} in time:\n${output}`));
        const timer = setTimeout(() => finish(late), withinMs);
        watchers.add(look);
        look();
      }),
  };
}
