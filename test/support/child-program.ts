// Starts a child program written in TypeScript, reads its JSON lines and talks to it; stopped by its process id.
import { type ChildProcess, spawn } from "node:child_process";
import { createInterface } from "node:readline";

/** For --import: the way in which the benchmarks and `npm start` load TypeScript. */
export const typescriptLoader = new URL("../../scripts/setup/typescript.mjs", import.meta.url).href;

export type ChildProgram = {
  readonly process: ChildProcess;
  /** The next line the child prints, parsed; fails when the child ends or the deadline passes first. */
  next<Line>(withinMs?: number): Promise<Line>;
  say(line: string): void;
  stop(): Promise<void>;
};

/** `options` reach the program as JSON in its first argument. */
export function startChildProgram(file: string, options: object): ChildProgram {
  const child = spawn(process.execPath, ["--import", typescriptLoader, file, JSON.stringify(options)], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  const lines: string[] = [];
  const waiting: Array<(line: string | undefined) => void> = [];
  createInterface({ input: child.stdout }).on("line", (line) => {
    const reader = waiting.shift();
    if (reader === undefined) lines.push(line);
    else reader(line);
  });
  const ended = new Promise<void>((resolve) => {
    child.on("exit", () => {
      for (const reader of waiting.splice(0)) reader(undefined);
      resolve();
    });
  });
  const killAtExit = () => child.kill("SIGKILL");
  process.once("exit", killAtExit);
  return {
    process: child,
    async next<Line>(withinMs = 20_000): Promise<Line> {
      const line = lines.shift() ?? (await nextLine(waiting, withinMs));
      if (line === undefined) throw new Error(`${file} ended, or said nothing within ${withinMs} ms`);
      return JSON.parse(line) as Line;
    },
    say: (line) => child.stdin.write(`${line}\n`),
    async stop() {
      child.kill("SIGKILL");
      await ended;
      process.removeListener("exit", killAtExit);
    },
  };
}

function nextLine(
  waiting: Array<(line: string | undefined) => void>,
  withinMs: number,
): Promise<string | undefined> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => resolve(undefined), withinMs);
    waiting.push((line) => {
      clearTimeout(timer);
      resolve(line);
    });
  });
}
