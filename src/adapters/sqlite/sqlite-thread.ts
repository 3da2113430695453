// The thread that owns the database: performs the batches it is sent, so that no fsync stalls the main thread.
import { type MessagePort, parentPort, workerData } from "node:worker_threads";
import { type ErrorCode, InterlockError } from "../../errors.ts";
import type { Log, LogFields } from "../../ports/ports.ts";
import type { StoreSettings } from "../../ports/store.ts";
import { type Operations, operations } from "../operations/perform.ts";
import { systemClock } from "../system/system.ts";
import { messageOf } from "./driver.ts";
import { createBackupServer } from "./running-backup.ts";
import { type Call, openSqliteCore, type Reply, type SqliteCore } from "./sqlite-core.ts";

export type ThreadData = {
  readonly file: string;
  readonly settings: StoreSettings;
  /** A module whose export `operations` replaces the real ones. */
  readonly operationsModule?: string;
};

/**
 * Calls and replies travel as JSON, which Redis and the tables need them to be in any case: written and read as text, the
 * messages of a three-step run take half of what a structured clone of their objects takes.
 */
export type ToThread =
  | { readonly kind: "perform" /** Of a list of `Call`. */; readonly calls: string; readonly nowMs: number }
  | { readonly kind: "close" };

/** What is left of an InterlockError on its way between threads. */
export type SentError = { readonly code: ErrorCode; readonly detail: string };

export type FromThread =
  | { readonly kind: "opened"; readonly storeTimeMs: number }
  | { readonly kind: "refused"; readonly error: SentError }
  | {
      readonly kind: "replies";
      /** JSON of a list of `Reply`. */
      readonly replies: string;
      /** Why these are the last answers. */
      readonly broken: SentError | undefined;
    }
  | { readonly kind: "broken"; readonly error: SentError }
  | {
      readonly kind: "log";
      readonly level: keyof Log;
      readonly message: string;
      readonly fields?: LogFields | undefined;
    }
  | { readonly kind: "closed" };

async function main(port: MessagePort, data: ThreadData): Promise<void> {
  const send = (message: FromThread) => port.postMessage(message);
  const logLine = (level: keyof Log) => (message: string, fields?: LogFields) =>
    send({ kind: "log", level, message, fields });
  const log: Log = { info: logLine("info"), warn: logLine("warn"), error: logLine("error") };
  try {
    const table = await loadOperations(data.operationsModule);
    const core = await openSqliteCore({ ...data, clock: systemClock, log, table });
    const serveBackup = createBackupServer(core.database, data.file, systemClock, log);
    port.on("message", (message: ToThread) => {
      handle(core, port, send, message);
      if (message.kind === "perform" && core.broken === undefined) serveBackup();
    });
    send({ kind: "opened", storeTimeMs: core.storeTimeMs });
  } catch (error) {
    const refusal =
      error instanceof InterlockError ? error : new InterlockError("internal", messageOf(error));
    send({ kind: "refused", error: sentError(refusal) });
  }
}

async function loadOperations(module: string | undefined): Promise<Operations> {
  if (module === undefined) return operations;
  return ((await import(module)) as { readonly operations: Operations }).operations;
}

function handle(
  core: SqliteCore,
  port: MessagePort,
  send: (message: FromThread) => void,
  message: ToThread,
): void {
  if (message.kind === "close") {
    core.close();
    send({ kind: "closed" });
    port.close();
    return;
  }
  for (let rest = JSON.parse(message.calls) as readonly Call[]; rest.length > 0; ) {
    const replies: readonly Reply[] = core.perform(rest, message.nowMs);
    const { broken } = core;
    send({ kind: "replies", replies: JSON.stringify(replies), broken: broken && sentError(broken) });
    rest = rest.slice(replies.length);
    core.maintain();
    if (broken === undefined && core.broken !== undefined)
      send({ kind: "broken", error: sentError(core.broken) });
  }
}

function sentError({ code, detail }: InterlockError): SentError {
  return { code, detail };
}

if (parentPort !== null) await main(parentPort, workerData as ThreadData);
