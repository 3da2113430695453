// Runs a program of the product as a user would: its output as text, its end, and signals by its own process id.
import { type ChildProcess, type ChildProcessByStdio, spawn } from "node:child_process";
import { dirname, join } from "node:path";
import type { Readable } from "node:stream";
import { typescriptLoader } from "./child-program.ts";
import { secretWatch } from "./secret-watch.ts";

const root = dirname(dirname(import.meta.dirname));

export type Program = {
  readonly process: ChildProcess;
  /** Standard output and error so far, in the order in which they came, without what a server logs because the machine is busy. */
  output(): string;
  /** Resolves when the output matches; fails, showing it, when the program ends or the deadline passes first. */
  shows(pattern: RegExp, withinMs?: number): Promise<RegExpExecArray>;
  /** The exit code, or the signal that ended it. */
  readonly ended: Promise<number | NodeJS.Signals>;
  /** For the end of a test, whatever state the program is in. */
  kill(): Promise<void>;
};

export type ProgramOptions = {
  readonly args?: readonly string[];
  /** Settings: names without INTERLOCK_. */
  readonly settings?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  /** Modules that are loaded before it, by their addresses. */
  readonly imports?: readonly string[];
};

/** Compiled once for a whole stage; a test file that is run alone starts programs from source. */
const compiled = process.env.COMPILED_PRODUCT;

/** `name` is a file of src/cli. */
export function startProgram(name: string, options: ProgramOptions = {}): Program {
  const { args = [], settings = {}, cwd = root, imports = [] } = options;
  const named = Object.entries(settings).map(([setting, value]) => [`INTERLOCK_${setting}`, value]);
  const [loaders, file] =
    compiled === undefined
      ? [[typescriptLoader], join(root, "src/cli", name)]
      : [[], join(compiled, "cli", name.replace(/\.ts$/, ".js"))];
  const child = spawn(
    process.execPath,
    [...[...imports, ...loaders].flatMap((each) => ["--import", each]), file, ...args],
    { cwd, env: { ...plainEnvironment(), ...Object.fromEntries(named) }, stdio: ["ignore", "pipe", "pipe"] },
  );
  const program = watchChild(child, name);
  watchSecrets(program, { name, settings, cwd });
  return program;
}

/** What it may not say again: what it was told as a secret, and what it keeps in its folder. */
function watchSecrets(
  program: Program,
  { name, settings, cwd }: Required<Pick<ProgramOptions, "settings" | "cwd">> & { readonly name: string },
): void {
  for (const [setting, value] of Object.entries(settings)) {
    if (/PASSWORD|TOKEN|SIGNING/.test(setting)) secretWatch.note(setting, value);
    for (const [, password = ""] of value.matchAll(/\/\/[^/\s:@]*:([^/\s@]+)@/g)) {
      secretWatch.note(`the password in ${setting}`, password);
    }
  }
  secretWatch.watchOutput(name, () => program.output(), "new keys once");
  program.process.once("close", () => {
    secretWatch.inspectFolder(settings.DATA_DIRECTORY ?? join(cwd, ".interlock"));
  });
}

/** A warning that no test asks for, and that any server may log while others use the processor. */
const busyMachine = /^\{"level":40,.*"msg":"the event loop was blocked"\}\n/gm;

/** Any child process whose output is piped; `name` is for messages. */
export function watchChild(child: ChildProcessByStdio<null, Readable, Readable>, name: string): Program {
  let output = "";
  let isOver = false;
  const watchers = new Set<() => void>();
  const tell = () => {
    for (const watcher of [...watchers]) watcher();
  };
  for (const stream of [child.stdout, child.stderr]) {
    stream.on("data", (chunk: Buffer) => {
      output += chunk.toString();
      tell();
    });
  }
  const ended = new Promise<number | NodeJS.Signals>((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (code, signal) => {
      isOver = true;
      tell();
      resolve(code ?? signal ?? "SIGKILL");
    });
  });
  const killAtExit = () => child.kill("SIGKILL");
  process.once("exit", killAtExit);
  return {
    process: child,
    output: () => output.replaceAll(busyMachine, ""),
    ended,
    shows: (pattern, withinMs = 30_000) =>
      new Promise((resolve, reject) => {
        const finish = (settle: () => void) => {
          clearTimeout(timer);
          watchers.delete(look);
          settle();
        };
        const look = () => {
          const match = pattern.exec(output);
          if (match !== null) finish(() => resolve(match));
          else if (isOver)
            finish(() => reject(new Error(`${name} ended without ${String(pattern)}:\n${output}`)));
        };
        const timer = setTimeout(() => {
          finish(() => reject(new Error(`${name} did not show ${String(pattern)} in time:\n${output}`)));
        }, withinMs);
        watchers.add(look);
        look();
      }),
    async kill() {
      child.kill("SIGKILL");
      await ended;
      process.removeListener("exit", killAtExit);
    },
  };
}

/** The machine's environment without what npm, the test runner and our own setup have added to it. */
export function plainEnvironment(): NodeJS.ProcessEnv {
  const added = /^(npm_|INTERLOCK_|VITEST|TINYPOOL|INIT_CWD$|TEST$|DEV$|PROD$|NODE_ENV$|NODE_OPTIONS$)/;
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !added.test(name)));
}

export type Served = { readonly url: string; readonly pid: number; readonly keys_file: string };

/** What the plain server says when it takes requests. */
export async function servedBy(program: Program): Promise<Served> {
  const [line] = await program.shows(/^\{"url".*\}$/m);
  return JSON.parse(line) as Served;
}
