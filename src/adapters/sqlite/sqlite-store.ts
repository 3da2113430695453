// The embedded store: one SQLite file, owned by one process, written by a thread of its own.
import { join } from "node:path";
import type { Worker } from "node:worker_threads";
import { InterlockError } from "../../errors.ts";
import type { Clock, Log } from "../../ports/ports.ts";
import { type Store, type StoreSettings, storeFrom } from "../../ports/store.ts";
import { startThread } from "../system/start-thread.ts";
import { CallQueue } from "./call-queue.ts";
import type { FromThread, SentError, ThreadData, ToThread } from "./sqlite-thread.ts";

export type SqliteStoreOptions = {
  /** The folder that holds `interlock.db`; created, for its owner only, when it is missing. */
  readonly directory: string;
  readonly settings: StoreSettings;
  readonly clock: Clock;
  readonly log: Log;
  /**
   * Called once when the disk has failed, the file is corrupt or the thread has died. The process should end at once, by
   * SIGKILL: a failed fsync must not be tried again, and an orderly end closes the file, which writes and syncs. All
   * answers are `unavailable` from now on; what is stored is known when the file is opened again.
   */
  readonly onFatal?: (error: InterlockError) => void;
  /** A module whose export `operations` replaces the real ones: functions cannot be sent to a thread. */
  readonly operationsModule?: URL;
};

/**
 * A thread, because fsync must not stall HTTP and lock renewals. It costs 2 % of the throughput and 0.06 ms per single call;
 * the event loop is late by 5 ms instead of 12 ms (p99, 100 admissions in flight; ADR 7).
 */
export async function openSqliteStore(options: SqliteStoreOptions): Promise<Store> {
  const { clock, log } = options;
  const file = join(options.directory, "interlock.db");
  const thread = startStore(options, file);
  thread.on("message", (message: FromThread) => {
    if (message.kind === "log") log[message.level](message.message, message.fields);
  });
  const storeTimeMs = await opened(thread);
  const send = (message: ToThread) => thread.postMessage(message);
  const queue = new CallQueue({
    clock,
    storeTimeMs,
    handOver: (calls, wallMs) => send({ kind: "perform", calls, wallMs }),
  });
  let end: "none" | "broken" | "closed" = "none";
  const fail = ({ code, detail }: SentError) => {
    if (end !== "none") return;
    end = "broken";
    // It keeps the file and its lock, but not the process.
    thread.unref();
    const error = new InterlockError(code, detail);
    queue.fail(error.message);
    log.error("store failed", { code, detail });
    options.onFatal?.(error);
  };
  thread.on("message", (message: FromThread) => {
    if (message.kind === "broken") fail(message.error);
    if (message.kind !== "replies") return;
    queue.answered(message.replies, message.storeTimeMs);
    if (message.broken !== undefined) fail(message.broken);
  });
  const exited = new Promise<void>((resolve) => {
    thread.on("error", (error) => fail({ code: "internal", detail: `the store's thread: ${error.message}` }));
    thread.on("exit", () => {
      fail({ code: "internal", detail: "the store's thread has ended" });
      resolve();
    });
  });
  return storeFrom(queue.execute, async () => {
    await queue.close();
    if (end === "broken") return;
    if (end === "none") send({ kind: "close" });
    end = "closed";
    await exited;
  });
}

function startStore({ settings, operationsModule }: SqliteStoreOptions, file: string): Worker {
  const data: ThreadData = {
    file,
    settings,
    ...(operationsModule === undefined ? {} : { operationsModule: operationsModule.href }),
  };
  return startThread(new URL("./sqlite-thread", import.meta.url), { workerData: data });
}

/** The store's time once the thread has the file open; a refusal is reported when the thread has closed the file. */
function opened(thread: Worker): Promise<number> {
  return new Promise((resolve, reject) => {
    let refusal = new InterlockError("internal", "the store's thread did not start");
    thread.on("message", (message: FromThread) => {
      if (message.kind === "opened") resolve(message.storeTimeMs);
      if (message.kind === "refused") refusal = new InterlockError(message.error.code, message.error.detail);
    });
    thread.on("error", (cause) => {
      refusal = new InterlockError("internal", "the store's thread did not start", { cause });
    });
    thread.on("exit", () => reject(refusal));
  });
}
