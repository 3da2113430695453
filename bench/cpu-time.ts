// Reads the CPU time of threads from the kernel, and says which part of the system each thread is.
import { readdirSync, readFileSync } from "node:fs";

/**
 * `gateway` is the main thread of the process that serves HTTP, `gc` all its other threads but SQLite's: V8's helpers, which
 * collect garbage and compile. `store` is SQLite's thread or the Redis server, `bus` the NATS server.
 */
export const parts = ["gateway", "gc", "store", "engine", "bus"] as const;
export type Part = (typeof parts)[number];

export type CountedProcess = { readonly pid: number; readonly main: Part; readonly others: Part };

/** CPU time so far in nanoseconds, by thread. */
export type CpuTimes = ReadonlyMap<string, { readonly part: Part; readonly ns: number }>;

/** As cpu-preload.cjs names it. */
const sqliteThread = "sqlite-thread";

export function readCpuTimes(processes: readonly CountedProcess[]): CpuTimes {
  return new Map(
    processes.flatMap(({ pid, main, others }) =>
      readdirSync(`/proc/${pid}/task`).flatMap((thread) => {
        const read = (file: string) => readIfThere(`/proc/${pid}/task/${thread}/${file}`);
        const [name, times] = [read("comm"), read("schedstat")];
        if (name === undefined || times === undefined) return [];
        const part = thread === String(pid) ? main : name.trim() === sqliteThread ? "store" : others;
        return [[`${pid}/${thread}`, { part, ns: Number(times.split(" ")[0]) }] as const];
      }),
    ),
  );
}

/** Microseconds between two readings. A thread that was not there before counts from its start. */
export function cpuMicroseconds(before: CpuTimes, after: CpuTimes): Readonly<Record<Part, number>> {
  const sum = { gateway: 0, gc: 0, store: 0, engine: 0, bus: 0 };
  for (const [thread, { part, ns }] of after) sum[part] += (ns - (before.get(thread)?.ns ?? 0)) / 1_000;
  return sum;
}

/** Nothing when the thread has ended since its folder was listed. */
function readIfThere(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    if (["ENOENT", "ESRCH"].includes((error as NodeJS.ErrnoException).code ?? "")) return undefined;
    throw error;
  }
}
