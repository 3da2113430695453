// The embedded store: one SQLite file, owned by one process, written by a thread of its own that takes the calls from a queue.
import { statSync } from "node:fs";
import { join } from "node:path";
import type { Worker } from "node:worker_threads";
import { InterlockError } from "../../errors.ts";
import type { CancelTimer, Clock, Log } from "../../ports/ports.ts";
import {
  type Answer,
  type Execute,
  type OperationName,
  type RequestOf,
  type Store,
  type StoreSettings,
  storeFrom,
} from "../../ports/store.ts";
import { createStoreClock, type StoreClock } from "../system/store-clock.ts";
import { startThread } from "../system/system.ts";
import { messageOf } from "./driver.ts";
import type { Call, Reply } from "./sqlite-core.ts";
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

export const databaseFile = (directory: string): string => join(directory, "interlock.db");

export type FoundData = { readonly file: string; readonly state: "there" | "empty" | "absent" };

export function findData(directory: string): FoundData {
  const file = databaseFile(directory);
  // After a kill all there is may still be in the log.
  const [own, log] = [file, `${file}-wal`].map((path) => statSync(path, { throwIfNoEntry: false })?.size);
  if ((own ?? 0) + (log ?? 0) > 0) return { file, state: "there" };
  return { file, state: own === undefined ? "absent" : "empty" };
}

/**
 * A thread, because fsync must not stall HTTP and lock renewals. It costs 2 % of the throughput and 0.06 ms per single call;
 * the event loop is late by 5 ms instead of 12 ms (p99, 100 admissions in flight; ADR 7).
 */
export async function openSqliteStore(options: SqliteStoreOptions): Promise<Store> {
  const { clock, log } = options;
  const file = databaseFile(options.directory);
  const thread = startStore(options, file);
  thread.on("message", (message: FromThread) => {
    if (message.kind === "log") log[message.level](message.message, message.fields);
  });
  const storedMs = await opened(thread);
  const send = (message: ToThread) => thread.postMessage(message);
  const queue = new CallQueue({
    clock,
    storeClock: createStoreClock({ clock, storedMs, log }),
    handOver: (calls, nowMs) => send({ kind: "perform", calls: JSON.stringify(calls), nowMs }),
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
    queue.answered(JSON.parse(message.replies) as readonly Reply[]);
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

type CallQueueOptions = {
  readonly clock: Clock;
  readonly storeClock: StoreClock;
  /** Gives a batch to the database; the answers come back through `answered`. */
  readonly handOver: (calls: readonly Call[], nowMs: number) => void;
};

type Entry = {
  readonly call: Call;
  readonly resolve: (answer: Answer<OperationName>) => void;
  readonly reject: (error: InterlockError) => void;
  readonly cancelTimer: CancelTimer;
  state: "waiting" | "handed_over" | "settled";
};

/** About 5 ms of work. Larger batches made the two threads take turns: one had nothing to do while the other worked. */
const batchCallsMax = 64;

/** So many calls are handed over although a batch is under way: the database finds them there when it is done with it. */
const earlyBatchCalls = 32;

/** Far more than a second of work; beyond it a caller is better served by a quick refusal. */
const waitingCallsMax = 50_000;

export class CallQueue {
  readonly #options: CallQueueOptions;
  #waiting: Entry[] = [];
  #handedOver: Entry[] = [];
  #isScheduled = false;
  #refusal: string | undefined;
  #whenEmpty: (() => void) | undefined;

  constructor(options: CallQueueOptions) {
    this.#options = options;
  }

  readonly execute: Execute = <Name extends OperationName>(
    name: Name,
    request: RequestOf<Name>,
    options: { readonly deadlineMs: number; readonly notAfterMs?: number },
  ) => {
    const { clock, storeClock } = this.#options;
    const nowMs = Math.floor(storeClock.nowMs());
    const call: Call = { name, request, notAfterMs: options.notAfterMs ?? nowMs + options.deadlineMs };
    const answer = new Promise<Answer<OperationName>>((resolve, reject) => {
      const refusal = this.#refusal ?? (this.#waiting.length >= waitingCallsMax ? "overloaded" : undefined);
      if (refusal !== undefined) {
        resolve({ kind: "unavailable", cause: refusal });
        return;
      }
      const cancelTimer = clock.timer(options.deadlineMs, () => expire(entry));
      const entry: Entry = { call, resolve, reject, cancelTimer, state: "waiting" };
      this.#waiting.push(entry);
      this.#schedule();
    });
    return answer as Promise<Answer<Name>>;
  };

  /** The answers to the calls handed over longest ago. */
  answered(replies: readonly Reply[]): void {
    const entries = this.#handedOver.splice(0, replies.length);
    entries.forEach((entry, index) => {
      settle(entry, replies[index] as Reply);
    });
    this.#schedule();
  }

  /** The database is gone: what it has may have had its effect; what still waits, and all that follows, has none. */
  fail(cause: string): void {
    this.#refusal = cause;
    for (const entry of this.#handedOver.splice(0)) {
      settle(entry, { kind: "unknown", cause, notAfterMs: entry.call.notAfterMs });
    }
    for (const entry of this.#waiting.splice(0)) settle(entry, { kind: "unavailable", cause });
    this.#whenEmpty?.();
  }

  /** Refuses new calls; resolves when all others are answered. */
  close(): Promise<void> {
    this.#refusal ??= "the store is closed";
    return new Promise((resolve) => {
      this.#whenEmpty = resolve;
      this.#schedule();
    });
  }

  /** After the current callbacks, so that the calls they make travel together. */
  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    queueMicrotask(() => {
      this.#isScheduled = false;
      this.#handOverNext();
    });
  }

  /**
   * What is not yet handed over can still be taken back, and shares a commit with what comes meanwhile; but the database must
   * not wait while this thread works through many answers.
   */
  #handOverNext(): void {
    const underWay = this.#handedOver.length;
    if (underWay > 0 && (this.#waiting.length < earlyBatchCalls || underWay > batchCallsMax)) return;
    let batch: Entry[] = [];
    while (batch.length === 0 && this.#waiting.length > 0) {
      batch = this.#waiting.splice(0, batchCallsMax).filter((entry) => entry.state === "waiting");
    }
    if (batch.length === 0) {
      if (underWay === 0) this.#whenEmpty?.();
      return;
    }
    for (const entry of batch) entry.state = "handed_over";
    this.#handedOver.push(...batch);
    const { storeClock, handOver } = this.#options;
    const calls = batch.map((entry) => entry.call);
    try {
      handOver(calls, storeClock.nowMs());
    } catch (error) {
      // A request holds something that JSON cannot say, such as a ring: nothing was sent.
      this.#handedOver.length -= batch.length;
      const failure = { kind: "operation_failed", message: messageOf(error) } as const;
      for (const entry of batch) settle(entry, failure);
      this.#schedule();
    }
  }
}

function expire(entry: Entry): void {
  if (entry.state === "waiting") {
    settle(entry, { kind: "unavailable", cause: "deadline passed before the database was asked" });
  } else {
    const { notAfterMs } = entry.call;
    settle(entry, { kind: "unknown", cause: "deadline passed before the database answered", notAfterMs });
  }
}

function settle(entry: Entry, reply: Reply): void {
  if (entry.state === "settled") return;
  entry.state = "settled";
  entry.cancelTimer();
  if (reply.kind === "operation_failed") {
    entry.reject(new InterlockError("internal", `${entry.call.name}: ${reply.message}`));
  } else {
    entry.resolve(reply);
  }
}
