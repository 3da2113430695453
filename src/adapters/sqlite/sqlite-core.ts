// The store on one SQLite connection, synchronous: a batch of calls is one transaction, answered when it is on disk.
import { InterlockError } from "../../errors.ts";
import type { Clock, Log } from "../../ports/ports.ts";
import type { Answer, OperationName, RequestOf, StoreSettings } from "../../ports/store.ts";
import { type Operations, operations, perform } from "../operations/perform.ts";
import { type Database, failureOf, isCorruption, loadDriver, messageOf, type Statement } from "./driver.ts";
import { openDatabase } from "./open-database.ts";
import { SqliteRecords } from "./sqlite-records.ts";

export type Call = {
  readonly name: OperationName;
  readonly request: RequestOf<OperationName>;
  readonly notAfterMs: number;
};

/** An operation that threw is no answer: its caller gets an error. */
export type Reply = Answer<OperationName> | { readonly kind: "operation_failed"; readonly message: string };

type SqliteCoreOptions = {
  readonly file: string;
  readonly settings: StoreSettings;
  readonly clock: Pick<Clock, "monotonicMs">;
  readonly log: Log;
  /** The operations to perform; planted bugs swap one. */
  readonly table?: Operations;
};

export async function openSqliteCore(options: SqliteCoreOptions): Promise<SqliteCore> {
  const open = await loadDriver();
  return new SqliteCore(openDatabase(open, options.file, options.log), options);
}

/** A transaction takes no further operations after this much work, so that slow ones do not keep the others waiting. */
const batchWorkMs = 10;

/**
 * Pages changed between two checkpoints, counted per row; about 13 MiB of log. Calls wait meanwhile. Measured at 30,000
 * runs: with 4,000 it takes 13 ms and adds 18 us to every admission, with 8,000 15 ms and 9 us; with 16,000 18 ms and 7 us,
 * but 69 ms at 180,000 runs.
 */
const checkpointPages = 8_000;

export class SqliteCore {
  readonly database: Database;
  readonly #options: SqliteCoreOptions;
  readonly #table: Operations;
  readonly #records: SqliteRecords;
  readonly #begin: Statement;
  readonly #commit: Statement;
  readonly #setTime: Statement;
  #nowUs: number;
  #pagesSinceCheckpoint = 0;
  #broken: InterlockError | undefined;

  constructor(database: Database, options: SqliteCoreOptions) {
    this.database = database;
    this.#options = options;
    this.#table = options.table ?? operations;
    this.#records = new SqliteRecords(database);
    this.#begin = database.prepare("BEGIN");
    this.#commit = database.prepare("COMMIT");
    this.#setTime = database.prepare("UPDATE meta SET value = ? WHERE name = 'last_time_us'");
    const last = database.prepare("SELECT value FROM meta WHERE name = 'last_time_us'").get();
    this.#nowUs = Number((last as { readonly value: string }).value);
  }

  /** The time of the last batch, or the last that was stored. It never goes back. */
  get storeTimeMs(): number {
    return Math.floor(this.#nowUs / 1000);
  }

  /** Why nothing works any more: the disk failed or the file is corrupt. */
  get broken(): InterlockError | undefined {
    return this.#broken;
  }

  /** Answers the first calls, at least one: as many as one transaction takes. */
  perform(calls: readonly Call[], nowMs: number): readonly Reply[] {
    if (this.#broken !== undefined) {
      const cause = this.#broken.message;
      return calls.map(() => ({ kind: "unavailable", cause }));
    }
    this.#nowUs = Math.max(this.#nowUs, Math.floor(nowMs * 1000));
    return this.#transact(calls);
  }

  /** To be called when the answers are on their way: copies the log into the file when enough has collected. */
  maintain(): void {
    if (this.#broken !== undefined || this.#pagesSinceCheckpoint < checkpointPages) return;
    this.#pagesSinceCheckpoint = 0;
    this.#execOrWarn("PRAGMA wal_checkpoint(PASSIVE)");
  }

  /** A broken connection stays open until the process ends: closing it would write what may not be whole. */
  close(): void {
    if (this.#broken !== undefined) return;
    // Leaves one file and frees the lock: the driver for Node 20 would keep it as long as a prepared statement lives.
    this.#execOrWarn(
      `PRAGMA wal_checkpoint(TRUNCATE);
       PRAGMA journal_mode = DELETE;
       PRAGMA locking_mode = NORMAL;
       SELECT 1 FROM sqlite_schema`,
    );
    if (this.#broken === undefined) this.database.close();
  }

  #transact(calls: readonly Call[]): readonly Reply[] {
    const records = this.#records;
    let replies: readonly Reply[];
    try {
      this.#begin.run();
      replies = this.#performEach(calls);
      if (records.hasChanges) {
        this.#setTime.run(String(this.#nowUs));
        this.#pagesSinceCheckpoint += 1 + records.write();
      }
    } catch (error) {
      return this.#notWritten(calls, error);
    }
    try {
      this.#commit.run();
    } catch (error) {
      return this.#notCommitted(calls.slice(0, replies.length), error);
    }
    records.committed();
    return replies;
  }

  /** No savepoints: changes wait in memory until all operations are decided, so a failed one only forgets its own. */
  #performEach(calls: readonly Call[]): readonly Reply[] {
    const { clock, settings } = this.#options;
    const records = this.#records;
    const context = { records, nowUs: this.#nowUs, settings };
    const endMs = clock.monotonicMs() + batchWorkMs;
    const replies: Reply[] = [];
    for (const call of calls) {
      try {
        replies.push(perform(this.#table, context, call));
        records.keep();
      } catch (error) {
        records.undo();
        if (failureOf(error) !== "other") throw error;
        replies.push({ kind: "operation_failed", message: messageOf(error) });
      }
      if (clock.monotonicMs() > endMs) break;
    }
    return replies;
  }

  #notWritten(calls: readonly Call[], error: unknown): readonly Reply[] {
    this.#rollBack();
    const failure = failureOf(error);
    if (failure === "broken") return this.#break(calls, error);
    if (failure === "disk_full") return diskFull(calls, error);
    // Something in one call cannot be stored (a text over 1 GB): apart, the others succeed.
    if (calls.length > 1) return calls.flatMap((call) => this.#transact([call]));
    return [{ kind: "operation_failed", message: messageOf(error) }];
  }

  /**
   * SQLite reports a full disk before the frame that completes the transaction is whole, so nothing of it can come back.
   * After any other failure nobody knows.
   */
  #notCommitted(calls: readonly Call[], error: unknown): readonly Reply[] {
    this.#rollBack();
    const failure = failureOf(error);
    if (failure === "broken") return this.#break(calls, error);
    if (failure === "disk_full") return diskFull(calls, error);
    return unknown(calls, `the commit failed: ${messageOf(error)}`);
  }

  #rollBack(): void {
    this.#records.forget();
    try {
      this.database.exec("ROLLBACK");
    } catch (error) {
      // After some errors SQLite has rolled back by itself and says that there is no transaction: just as good.
      if (failureOf(error) === "broken") this.#declareBroken(error);
    }
  }

  #break(calls: readonly Call[], error: unknown): readonly Reply[] {
    return unknown(calls, this.#declareBroken(error));
  }

  #declareBroken(error: unknown): string {
    const code = isCorruption(error) ? "store_corrupt" : "store_unavailable";
    const detail = `${this.#options.file} can no longer be used: ${messageOf(error)}`;
    this.#broken = new InterlockError(code, detail, { cause: error });
    return this.#broken.message;
  }

  #execOrWarn(sql: string): void {
    try {
      this.database.exec(sql);
    } catch (error) {
      if (failureOf(error) === "broken") this.#declareBroken(error);
      // Nothing is lost: the log keeps what the file has no room for, and the next checkpoint or start copies it.
      else this.#options.log.warn("store checkpoint failed", { cause: messageOf(error) });
    }
  }
}

function diskFull(calls: readonly Call[], error: unknown): readonly Reply[] {
  return calls.map(() => ({ kind: "unavailable", cause: `disk full: ${messageOf(error)}` }));
}

function unknown(calls: readonly Call[], cause: string): readonly Reply[] {
  return calls.map(({ notAfterMs }) => ({ kind: "unknown", cause, notAfterMs }));
}
