// What the locks benchmark measures: contenders for one lock, with each of our strategies and with each library, in turns.
import { spawn } from "node:child_process";
import { join } from "node:path";
import { lockWaits } from "../src/domain/lock.ts";
import { startRedisServer } from "../src/drills/servers/start-servers.ts";
import { typescriptLoader } from "../test/support/child-program.ts";
import type { Contention, ContentionResult } from "./lock-contention.ts";
import type { Measurement } from "./slices.ts";

export const lockLibraries = ["redlock", "redis-semaphore", "redlock-universal"] as const;
export const lockKinds = [...lockWaits, ...lockLibraries] as const;

type LocksScale = { readonly slices: number; readonly contention: Contention };

const contention = { contenders: 100, workMs: 1, elsewhereMs: 1 } as const;

export const locksScales: Readonly<Record<"quick" | "full", LocksScale>> = {
  quick: { slices: 1, contention: { ...contention, warmUpMs: 500, windowMs: 2_000 } },
  full: { slices: 3, contention: { ...contention, warmUpMs: 2_000, windowMs: 10_000 } },
};

const fields = {
  per_s: { unit: "per second", over: "median" },
  p50_ms: { unit: "ms", over: "median" },
  p95_ms: { unit: "ms", over: "median" },
  max_ms: { unit: "ms", over: "median" },
  jain: { unit: "index", over: "median" },
  commands_per_acquisition: { unit: "commands", over: "median" },
} as const satisfies Record<keyof ContentionResult, Measurement<unknown>["fields"][string]>;

export function locksPlan(scale: "quick" | "full"): readonly Measurement<unknown>[] {
  const sizes = locksScales[scale];
  return lockKinds.map((kind) => ({
    name: `locks.redis.${kind}.c${contention.contenders}`,
    slices: sizes.slices,
    fields,
    async measure() {
      const server = await startRedisServer();
      try {
        return await runProgram(kind, server.url, sizes.contention);
      } finally {
        await server.stop();
      }
    },
  }));
}

const programs = {
  ours: join(import.meta.dirname, "lock-strategies.ts"),
  library: join(import.meta.dirname, "peers", "lock-libraries.mjs"),
} as const;

/** A process of its own for each: none finds code that another has warmed up. */
function runProgram(
  kind: (typeof lockKinds)[number],
  url: string,
  load: Contention,
): Promise<ContentionResult> {
  const isLibrary = (lockLibraries as readonly string[]).includes(kind);
  const program = isLibrary ? programs.library : programs.ours;
  const words = ["--import", typescriptLoader, program, kind, url, JSON.stringify(load)];
  const livesMaxMs = 30_000 + load.warmUpMs + load.windowMs;
  const child = spawn(process.execPath, words, { stdio: ["ignore", "pipe", "inherit"], timeout: livesMaxMs });
  const killAtExit = () => child.kill("SIGKILL");
  process.once("exit", killAtExit);
  let output = "";
  child.stdout.on("data", (chunk) => {
    output += chunk;
  });
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code, signal) => {
      process.removeListener("exit", killAtExit);
      if (code === 0) resolve(JSON.parse(output) as ContentionResult);
      else reject(new Error(`${kind} ended with ${code ?? signal}`));
    });
  });
}
