// What only the system has: the real clocks and timers, randomness, the name of this process, and threads.
import { randomBytes, randomFillSync } from "node:crypto";
import { hostname } from "node:os";
import { Worker, type WorkerOptions } from "node:worker_threads";
import type { Clock, Random } from "../../ports/ports.ts";

export const systemClock: Clock = {
  monotonicMs: () => performance.now(),
  wallMs: () => Date.now(),
  sleep: (ms, signal) =>
    new Promise((resolve) => {
      if (signal?.aborted) {
        resolve();
        return;
      }
      const finish = () => {
        clearTimeout(timer);
        signal?.removeEventListener("abort", finish);
        resolve();
      };
      const timer = setTimeout(finish, ms);
      signal?.addEventListener("abort", finish);
    }),
  timer: (ms, callback) => {
    const timer = setTimeout(callback, ms);
    return () => clearTimeout(timer);
  },
  yield: () =>
    new Promise((resolve) => {
      waiting.push(resolve);
      if (waiting.length === 1) setImmediate(resumeOne);
    }),
};

const waiting: Array<() => void> = [];

/** One in each turn of the event loop: a hundred costly runs that all yield would otherwise go on all in the same turn. */
function resumeOne(): void {
  waiting.shift()?.();
  if (waiting.length > 0) setImmediate(resumeOne);
}

/** After everything that this turn of the event loop has read: calls that are asked in one turn can then leave together. */
export function atEndOfTurn(callback: () => void): void {
  setImmediate(callback);
}

const tokenBytes = 16;

/** Drawn in advance: asking the system once per token cost 5.0 us, a slice of this costs 0.2 us. */
const pool = Buffer.alloc(512 * tokenBytes);
let used = pool.length;

export const systemRandom: Random = {
  token: () => {
    if (used === pool.length) {
      randomFillSync(pool);
      used = 0;
    }
    used += tokenBytes;
    return pool.toString("hex", used - tokenBytes, used);
  },
  fraction: () => Math.random(),
};

export function systemInstance(): string {
  return `${hostname().replaceAll(/[^A-Za-z0-9.-]/g, "-")}:${process.pid}:${randomBytes(3).toString("hex")}`;
}

/** Node takes the types out of a program by itself, from 22.18 on. */
const readsTypescript = Boolean((process.features as { readonly typescript?: unknown }).typescript);

/** `program` names the module without its ending, unless it is JavaScript in any case. */
export function startThread(program: URL, options: WorkerOptions): Worker {
  if (program.pathname.endsWith(".mjs")) return new Worker(program, options);
  const isCompiled = import.meta.url.endsWith(".js");
  const file = `${program.href}${isCompiled ? ".js" : ".ts"}`;
  if (isCompiled) return new Worker(new URL(file), options);
  if (readsTypescript) return new Worker(new URL(file), { ...options, execArgv: [] });
  // From source the thread has to load TypeScript. On Node 20 neither the parent's loader nor `--import tsx` reaches a
  // thread, so it registers its own; the loader is found from here, since the process may run in any folder.
  const loader = import.meta.resolve("tsx/esm/api");
  const bootstrap = `import("${loader}").then(({ register }) => { register(); return import("${file}"); })`;
  return new Worker(bootstrap, { ...options, eval: true, execArgv: [] });
}
