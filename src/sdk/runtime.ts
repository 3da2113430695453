// Clocks, timers, randomness and the environment for the SDK, which runs in other programs: nothing else in it touches them.
import { hostname } from "node:os";

/** Both clocks at one moment: the monotonic one may stand still while a machine sleeps, the wall clock may be set back. */
export type Instant = { readonly monotonicMs: number; readonly wallMs: number };

export type Runtime = {
  now(): Instant;
  /** Resolves after the time, or as soon as the signal is aborted. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
  /** Calls back once; the answer takes that back. */
  timer(ms: number, callback: () => void): () => void;
  /** Calls back when all that is ready now has had its turn. */
  soon(callback: () => void): void;
  /** From 0 up to, but not including, 1. */
  fraction(): number;
  /** 32 random characters that nobody guesses. */
  token(): string;
  environment(name: string): string | undefined;
  /** The machine and the process, for people. */
  processName(): string;
  /** For what nobody waits for and somebody should know. */
  warn(message: string): void;
  /** Calls back when the operating system asks the process to end; the answer stops listening. */
  onStopSignal(callback: (signal: string) => void): () => void;
};

/** Longer timers fire at once in Node. */
const timerMsMax = 2_147_483_647;

const stopSignals = ["SIGTERM", "SIGINT"] as const;

export const runtime: Runtime = {
  now: () => ({ monotonicMs: performance.now(), wallMs: Date.now() }),
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
      const timer = setTimeout(finish, Math.min(ms, timerMsMax));
      signal?.addEventListener("abort", finish, { once: true });
    }),
  timer(ms, callback) {
    const timer = setTimeout(callback, Math.min(ms, timerMsMax));
    return () => clearTimeout(timer);
  },
  soon: (callback) => void setImmediate(callback),
  fraction: () => Math.random(),
  token: () => crypto.randomUUID().replaceAll("-", ""),
  environment: (name) => process.env[name],
  processName: () => `${hostname().replaceAll(/[^A-Za-z0-9.-]/g, "-") || "host"}-${process.pid}`,
  warn: (message) => process.emitWarning(message, "InterlockWarning"),
  onStopSignal(callback) {
    const listeners = stopSignals.map((name) => [name, () => callback(name)] as const);
    for (const [name, listener] of listeners) process.on(name, listener);
    return () => {
      for (const [name, listener] of listeners) process.removeListener(name, listener);
    };
  },
};

/** The same moment and some time later, by both clocks. */
export function later({ monotonicMs, wallMs }: Instant, ms: number): Instant {
  return { monotonicMs: monotonicMs + ms, wallMs: wallMs + ms };
}

/** By each clock the earlier of the two moments. */
export function earlier(left: Instant, right: Instant): Instant {
  return {
    monotonicMs: Math.min(left.monotonicMs, right.monotonicMs),
    wallMs: Math.min(left.wallMs, right.wallMs),
  };
}

/** The larger of the two: being wrong in this direction only stops a holder early. */
export function elapsedMs(since: Instant, now: Instant): number {
  return Math.max(now.monotonicMs - since.monotonicMs, now.wallMs - since.wallMs);
}
