// A program of the product as a process of its own: its lines, its end, and signals by its own process id. None outlives this process.
import { type ChildProcess, spawn } from "node:child_process";
import { processEnvironment } from "../../load-config.ts";

export type ChildProgram = {
  readonly pid: number;
  readonly ended: Promise<void>;
  hasEnded(): boolean;
  /** The end of its output, for error messages. */
  output(): string;
  /** SIGSTOP and SIGCONT. */
  pause(): void;
  resume(): void;
  /** Resolves when it is gone; SIGKILL ends one that is paused, too. */
  end(signal: "SIGTERM" | "SIGKILL"): Promise<void>;
};

type ProgramOptions = {
  /** A file of the product, compiled or in TypeScript, whichever runs now; then its arguments. */
  readonly args: readonly [program: string, ...rest: string[]];
  /** By their whole names; of this process's own, those of the product are left out. */
  readonly environment: Readonly<Record<string, string>>;
  /** Told every whole line that it prints. */
  hear(line: string): void;
};

const outputMax = 20_000;

const running = new Set<ChildProcess>();
const killRunning = () => {
  for (const child of running) child.kill("SIGKILL");
};
process.once("exit", killRunning);
// A process that is ended by this signal does not come to "exit".
process.once("SIGTERM", () => {
  killRunning();
  process.kill(process.pid, "SIGTERM");
});

export function startChildProgram({ args, environment, hear }: ProgramOptions): ChildProgram {
  const inherited = Object.entries(processEnvironment()).filter(([name]) => !name.startsWith("INTERLOCK_"));
  // Source in TypeScript is loaded as this process was, which may be a test runner with ways of its own.
  const loader = args[0].endsWith(".ts") ? ["--import", import.meta.resolve("tsx")] : [];
  const child = spawn(process.execPath, [...loader, ...args], {
    env: { ...Object.fromEntries(inherited), ...environment } as NodeJS.ProcessEnv,
    stdio: ["ignore", "pipe", "pipe"],
  });
  running.add(child);
  let output = "";
  let hasEnded = false;
  for (const stream of [child.stdout, child.stderr]) {
    let rest = "";
    stream.on("data", (chunk: Buffer) => {
      output = `${output}${chunk.toString()}`.slice(-outputMax);
      const lines = `${rest}${chunk.toString()}`.split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) hear(line);
    });
  }
  const ended = new Promise<void>((resolve) => {
    const settle = () => {
      hasEnded = true;
      running.delete(child);
      resolve();
    };
    child.once("close", settle);
    child.once("error", (error) => {
      output += error.message;
      settle();
    });
  });
  return {
    pid: child.pid as number,
    ended,
    hasEnded: () => hasEnded,
    output: () => output,
    pause: () => void child.kill("SIGSTOP"),
    resume: () => void child.kill("SIGCONT"),
    async end(signal) {
      child.kill(signal);
      await ended;
    },
  };
}
