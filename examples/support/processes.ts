// Starts the processes of an example, and leaves none behind, however the example ends.
import { type ChildProcess, spawn } from "node:child_process";
import { EventEmitter, once } from "node:events";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { createInterface } from "node:readline";

export const root = dirname(dirname(import.meta.dirname));

export type Started = {
  readonly name: string;
  readonly pid: number;
  /** The line that it was waited for. */
  readonly ready: string;
  /** Waits for a line that it says. */
  says(pattern: RegExp): Promise<string>;
  signal(signal: NodeJS.Signals): void;
  /** Asks it to end, and waits until it has. */
  stop(): Promise<void>;
  /** Ends it with -9: nothing is finished or announced. */
  kill(): Promise<void>;
};

export type Launch = {
  readonly name: string;
  readonly program: string;
  readonly args: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** The process is ready when it says a line like this. */
  readonly readyWhen: RegExp;
  /** Its lines are printed, with its name before them. */
  readonly shown?: boolean;
};

const children = new Set<ChildProcess>();
const folders = new Set<string>();

// Ctrl-C and `kill` come here, too: whatever is left ends with the example, by its process id.
process.on("exit", () => {
  for (const child of children) child.kill("SIGKILL");
  // A child that is just being killed may still have written something.
  for (const folder of folders)
    rmSync(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 50 });
});
process.on("SIGINT", () => process.exit(130));
process.on("SIGTERM", () => process.exit(143));

/** Gone when the example ends. */
export function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "interlock-example-"));
  folders.add(folder);
  return folder;
}

/** Resolves when the process says that it is ready. */
export async function start(launch: Launch): Promise<Started> {
  const { name, program, args, env, readyWhen } = launch;
  const child = spawn(program, args, {
    cwd: root,
    env: { ...plainEnvironment(), ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  children.add(child);
  const ended = once(child, "exit").finally(() => children.delete(child));
  const says = listen(child, launch);
  const ready = await says(readyWhen);
  const end = async (signal: NodeJS.Signals) => {
    child.kill(signal);
    await ended;
  };
  return {
    name,
    pid: child.pid as number,
    ready,
    says,
    signal: (signal) => void child.kill(signal),
    stop: () => end("SIGTERM"),
    kill: () => end("SIGKILL"),
  };
}

/** A TypeScript file of the repository, as a process of its own. */
export function startScript(
  file: string,
  launch: Omit<Launch, "program" | "args"> & { readonly args?: readonly string[] },
): Promise<Started> {
  const args = [...scriptWords(file), ...(launch.args ?? [])];
  return start({ ...launch, program: process.execPath, args });
}

/** The server itself may have been compiled before, as for a test of all examples: it starts in a third of the time then. */
function scriptWords(file: string): string[] {
  const compiled = process.env.COMPILED_PRODUCT;
  if (compiled !== undefined && file.startsWith("src/"))
    return [join(compiled, file.replace(/^src\//, "").replace(/\.ts$/, ".js"))];
  return ["--import", import.meta.resolve("tsx"), join(root, file)];
}

/** A server program: where `variable` says, in .servers/ of the checkout, or on the PATH. */
export function findProgram(name: string, variable: string): string {
  const given = process.env[variable];
  const path = (process.env.PATH ?? "").split(delimiter).filter((folder) => folder !== "");
  const candidates =
    given === undefined ? [join(root, ".servers/bin"), ...path].map((folder) => join(folder, name)) : [given];
  const found = candidates.find((candidate) => existsSync(candidate));
  if (found !== undefined) return found;
  throw new Error(
    `There is no ${given ?? name}: install it, or set ${variable}, or let the checkout fetch it: node scripts/with-setup.mjs --servers -- true`,
  );
}

/** A port of this machine that nobody listens on. */
export async function freePort(): Promise<number> {
  const probe = createServer().listen(0, "127.0.0.1");
  await once(probe, "listening");
  const address = probe.address();
  probe.close();
  await once(probe, "close");
  if (address === null || typeof address === "string") throw new Error("no port");
  return address.port;
}

/** Settings of your shell are for your server, not for the example's. */
function plainEnvironment(): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("INTERLOCK_")));
}

/** Gives a function that waits for a line, also for one that was said before. */
function listen(child: ChildProcess, { name, shown }: Launch): (pattern: RegExp) => Promise<string> {
  const lines: string[] = [];
  const heard = new EventEmitter();
  const hear = (line: string) => {
    if (shown) console.log(`${name} | ${line}`);
    lines.push(line);
    heard.emit("line");
  };
  for (const stream of [child.stdout, child.stderr]) {
    if (stream !== null) createInterface({ input: stream }).on("line", hear);
  }
  let over: Error | undefined;
  const end = (error: Error) => {
    over = error;
    heard.emit("line");
  };
  child.once("error", end);
  child.once("close", (code, signal) =>
    end(new Error(`${name} ended with ${code ?? signal}:\n${lines.slice(-20).join("\n")}`)),
  );
  return async (pattern) => {
    for (;;) {
      const line = lines.find((each) => pattern.test(each));
      if (line !== undefined) return line;
      if (over !== undefined) throw over;
      await once(heard, "line");
    }
  };
}
