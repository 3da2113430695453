// Opens the database file: refuses a broken, foreign, newer or used one, sets what durability needs and reads it back.
import { closeSync, mkdirSync, openSync, rmSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { InterlockError } from "../../errors.ts";
import type { Log } from "../../ports/ports.ts";
import { type Database, failureOf, isCorruption, messageOf, type OpenDatabase } from "./driver.ts";
import { checkedVersion, migrate, pragmaValue } from "./schema.ts";
import { pageBytes } from "./sqlite-records.ts";

/** Every setting as SQLite is asked for it, and as it must read back: a refused one would be silent otherwise. */
const pragmas = [
  // First, so that the lock is taken with the first access and the index of the log lives in memory.
  ["locking_mode", "exclusive"],
  ["journal_mode", "wal"],
  // FULL: every commit is on the disk before it is answered.
  ["synchronous", 2],
  ["fullfsync", 1],
  // By hand instead: an automatic checkpoint swallows a failed fsync, and the next one would then seem to succeed.
  ["wal_autocheckpoint", 0],
  ["foreign_keys", 1],
  ["trusted_schema", 0],
  ["cell_size_check", 1],
  ["temp_store", 2],
  // 64 MiB: the tables of about 50,000 runs.
  ["cache_size", -65_536],
] as const;

export function openDatabase(open: OpenDatabase, file: string, log: Log): Database {
  try {
    if (createIfMissing(file) === "existing") inspect(open, file, "quick_check");
    const database = openForWriting(open, file);
    try {
      const { from, to } = migrate(database, file);
      if (from !== 0 && from < to) log.info("store schema migrated", { file, from, to });
      // Left by the inspection; nobody else can be using it while we hold the lock.
      rmSync(`${file}-shm`, { force: true });
      return database;
    } catch (error) {
      database.close();
      throw error;
    }
  } catch (error) {
    throw explained(error, file);
  }
}

/** The folder may be read by its owner only: the file holds the inputs of all runs. */
function createIfMissing(file: string): "created" | "existing" {
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
  // An existing file is not opened here: closing any descriptor of it would drop the locks of a store in this process.
  if (statSync(file, { throwIfNoEntry: false }) !== undefined) return "existing";
  closeSync(openSync(file, "wx", 0o600));
  return "created";
}

/**
 * Looks before anything can be written: even closing a writable connection would copy the log into the file, and a broken
 * one has to stay as it is for analysis. The check takes 0.1 s for 100 MB. A function collects the results, since the
 * driver for Node 20 keeps a connection, and with it the lock, as long as one of its prepared statements lives. Gives the
 * schema's version; 0 means an empty file.
 */
export function inspect(open: OpenDatabase, file: string, check: "quick_check" | "integrity_check"): number {
  const database = open(file, { readOnly: true });
  try {
    const found: unknown[] = [];
    database.function("collect", (value) => {
      found.push(value);
      return null;
    });
    database.exec(
      `PRAGMA busy_timeout = ${busyTimeoutMs};
       SELECT collect(user_version) FROM pragma_user_version;
       SELECT collect(application_id) FROM pragma_application_id;
       SELECT collect(COUNT(*)) FROM sqlite_schema`,
    );
    const [version, applicationId, tables] = found as [number, number, number];
    checkedVersion(file, { version, applicationId, tables });
    database.exec(`SELECT collect(${check}) FROM pragma_${check} LIMIT 1`);
    const verdict = found[3];
    if (verdict !== "ok") throw new InterlockError("store_corrupt", `${file}: ${String(verdict)}`);
    return version;
  } finally {
    database.close();
  }
}

/** The owner keeps the file until it ends, so waiting is useless; this only outlasts another inspection. */
const busyTimeoutMs = 100;

export function openForWriting(open: OpenDatabase, file: string): Database {
  const database = open(file, { readOnly: false });
  try {
    database.exec(`PRAGMA busy_timeout = ${busyTimeoutMs}`);
    // Of a new file: one that is there keeps its own.
    database.exec(`PRAGMA page_size = ${pageBytes}`);
    for (const [name, value] of pragmas) {
      database.exec(`PRAGMA ${name} = ${value}`);
      const actual = pragmaValue(database, name);
      if (actual !== value) {
        const detail = `${file}: SQLite keeps ${name} at ${String(actual)}, needed is ${value}`;
        throw new InterlockError("store_unsuitable", detail);
      }
    }
    return database;
  } catch (error) {
    database.close();
    throw error;
  }
}

export function explained(error: unknown, file: string): InterlockError {
  if (error instanceof InterlockError) return error;
  const failure = failureOf(error);
  const detail = `${file}: ${failure === "disk_full" ? "disk full: " : ""}${messageOf(error)}`;
  if (failure === "in_use") return new InterlockError("store_in_use", detail, { cause: error });
  if (isCorruption(error)) return new InterlockError("store_corrupt", detail, { cause: error });
  return new InterlockError("store_unavailable", detail, { cause: error });
}
