// Programs of the product as processes of their own, which a drill may kill, pause and start again. None outlives this process.

import { type ChildProcess, spawn } from "node:child_process";
import { extname, join } from "node:path";
import { processEnvironment } from "../../load-config.ts";
import { runtime } from "../../sdk/runtime.ts";

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
  /** Called with every whole line that it prints. */
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

export type ServeProcess = {
  readonly url: string;
  readonly pid: number;
  /** Only from the first process on new data. */
  readonly keys?: { readonly platform: string };
  readonly keysFile?: string;
  pause(): void;
  resume(): void;
  /** SIGKILL. */
  kill(): Promise<void>;
  /** SIGTERM: what is under way is finished. */
  stop(): Promise<void>;
  hasEnded(): boolean;
  /** The end of its output, for error messages. */
  output(): string;
};

/** The same program that runs now, compiled or in TypeScript. */
const program = join(import.meta.dirname, "../../cli", `interlock${extname(import.meta.filename)}`);
const readyWithinMs = 30_000;

/** `settings` are the names of the environment without INTERLOCK_. */
export async function startServeProcess(settings: Readonly<Record<string, string>>): Promise<ServeProcess> {
  const named = Object.entries(settings).map(([name, value]) => [`INTERLOCK_${name}`, value]);
  let isReady: (line: ReadyLine) => void = () => {};
  const child = startChildProgram({
    args: [program, "serve", "--json"],
    environment: Object.fromEntries(named) as Record<string, string>,
    hear(line) {
      if (line.startsWith('{"url"')) isReady(JSON.parse(line) as ReadyLine);
    },
  });
  const ready = new Promise<ReadyLine>((resolve, reject) => {
    const cancel = runtime.timer(readyWithinMs, () =>
      reject(new Error(`the server did not start:\n${child.output()}`)),
    );
    isReady = (line) => {
      cancel();
      resolve(line);
    };
    void child.ended.then(() => {
      cancel();
      reject(new Error(`the server ended:\n${child.output()}`));
    });
  });
  try {
    const { url, keys, keys_file } = await ready;
    return {
      url,
      ...(keys === undefined ? {} : { keys }),
      ...(keys_file === undefined ? {} : { keysFile: keys_file }),
      pid: child.pid,
      pause: child.pause,
      resume: child.resume,
      kill: () => child.end("SIGKILL"),
      stop: () => child.end("SIGTERM"),
      hasEnded: child.hasEnded,
      output: child.output,
    };
  } catch (error) {
    await child.end("SIGKILL");
    throw error;
  }
}

type ReadyLine = {
  readonly url: string;
  readonly keys?: { readonly platform: string };
  readonly keys_file?: string;
};
