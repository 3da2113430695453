// Starts the processes whose CPU time is measured: compiled, on the Node that was asked for, with threads that have names.
import { type ChildProcessByStdio, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import type { Readable } from "node:stream";
import { plainEnvironment, watchChild } from "../test/support/program.ts";

export const root = dirname(import.meta.dirname);

/** Where `src` and the program of the floors are, compiled as for a release and with source maps beside them. */
export function compileForMeasuring(): string {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "interlock-bench-compiled-")));
  process.once("exit", () => rmSync(folder, { recursive: true, force: true }));
  const project = join(folder, "tsconfig.json");
  const compilerOptions = {
    rootDir: root,
    outDir: folder,
    typeRoots: [join(root, "node_modules/@types")],
    ...{ declaration: false, noCheck: true, sourceMap: true },
  };
  writeFileSync(
    project,
    JSON.stringify({
      extends: join(root, "tsconfig.build.json"),
      compilerOptions,
      include: [join(root, "src")],
      files: [join(import.meta.dirname, "cpu-floor-program.ts")],
    }),
  );
  execFileSync(process.execPath, [join(root, "node_modules/typescript/bin/tsc"), "-p", project]);
  const lua = "src/adapters/redis/lua";
  cpSync(join(root, lua), join(folder, lua), { recursive: true });
  cpSync(join(root, "package.json"), join(folder, "package.json"));
  symlinkSync(join(root, "node_modules"), join(folder, "node_modules"));
  return folder;
}

/** What all measured processes have in common: the program `node`, and the folder of what is compiled. */
export type Measuring = { readonly node: string; readonly compiled: string };

export type WrittenProfile = {
  readonly thread: "main" | "sqlite";
  readonly file: string;
  /** Spent by the thread while it was profiled. */
  readonly cpuUs: number;
};

export type MeasuredProcess<Ready> = {
  readonly pid: number;
  /** The line of JSON with which it said that it takes requests. */
  readonly ready: Ready;
  /** Profiles its threads while the work goes on; the names of the files begin with `prefix`. */
  profile(prefix: string, work: () => Promise<unknown>): Promise<readonly WrittenProfile[]>;
  kill(): Promise<void>;
};

export type MeasuredProgram = {
  /** Below the compiled folder. */
  readonly file: string;
  readonly args: readonly string[];
  /** Names without INTERLOCK_. */
  readonly settings?: Readonly<Record<string, string>>;
  /** The folder it runs in. */
  readonly folder: string;
};

export async function startMeasured<Ready extends object>(
  { node, compiled }: Measuring,
  { file, args, settings = {}, folder }: MeasuredProgram,
): Promise<MeasuredProcess<Ready>> {
  const named = Object.entries(settings).map(([name, value]) => [`INTERLOCK_${name}`, value]);
  const preload = join(import.meta.dirname, "cpu-preload.cjs");
  const child = spawn(node, ["--require", preload, join(compiled, file), ...args], {
    cwd: folder,
    env: { ...plainEnvironment(), ...Object.fromEntries(named) },
    stdio: ["ignore", "pipe", "pipe", "ipc"],
  });
  const program = watchChild(child as ChildProcessByStdio<null, Readable, Readable>, file);
  const [line] = await program.shows(/^\{"(?:url|port)".*\}$/m);
  const order = async (message: { readonly kind: "start" | "stop"; readonly prefix?: string }) => {
    const answered = once(child, "message");
    child.send(message);
    const [answer] = (await answered) as [{ readonly written: readonly WrittenProfile[] }];
    return answer.written;
  };
  return {
    pid: child.pid as number,
    ready: JSON.parse(line) as Ready,
    async profile(prefix, work) {
      await order({ kind: "start" });
      await work();
      return order({ kind: "stop", prefix });
    },
    kill: () => program.kill(),
  };
}
