// A server of the product as a process of its own, which a drill may kill, pause and start again.
import { extname, join } from "node:path";
import { runtime } from "../../sdk/runtime.ts";
import { startChildProgram } from "./child-program.ts";

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
