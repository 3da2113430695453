// Copies the embedded data into one file, puts such a copy in place, and removes the data: with nobody else at it.
import {
  chmodSync,
  closeSync,
  copyFileSync,
  fsyncSync,
  linkSync,
  mkdirSync,
  openSync,
  renameSync,
  rmSync,
  statSync,
} from "node:fs";
import { dirname } from "node:path";
import { InterlockError } from "../../errors.ts";
import { type Database, loadDriver, type OpenDatabase } from "./driver.ts";
import { explained, inspect, openForWriting } from "./open-database.ts";
import { databaseFile } from "./sqlite-store.ts";

export type Copy = { readonly file: string; readonly bytes: number; readonly schemaVersion: number };

export type Restored = Copy & {
  /** Where the data that was there before is kept. */
  readonly before?: string;
};

/** The copy is whole and checked before it gets its name. The data itself stays as it is, also when a migration is due. */
export async function backUpDatabase(directory: string, target: string): Promise<Copy> {
  const file = databaseFile(directory);
  if (!exists(file)) throw new InterlockError("data_left_alone", `there is no data in ${directory}`);
  if (exists(target)) throw new InterlockError("data_left_alone", `${target} exists: choose another name`);
  return makeCopy(target, file, (open, partial) => {
    // Made first, since SQLite would let everybody read it.
    closeSync(openSync(partial, "wx", 0o600));
    copyInto(open, file, partial);
    return inspect(open, partial, "integrity_check");
  });
}

/** A copy that a running server has made: checked under its own name, then under the one that was asked for. */
export function putCopyInPlace(copy: string, target: string): Promise<Copy> {
  return makeCopy(target, target, (open, partial) => {
    copyFileSync(copy, partial);
    chmodSync(partial, 0o600);
    return checkBackup(open, partial, copy);
  });
}

/** `fill` makes the file under another name, checks it and gives its schema version; only then does it get its own. */
async function makeCopy(
  target: string,
  blamed: string,
  fill: (open: OpenDatabase, partial: string) => number,
): Promise<Copy> {
  const open = await loadDriver();
  mkdirSync(dirname(target), { recursive: true });
  const partial = `${target}.partial-${process.pid}`;
  rmSync(partial, { force: true });
  try {
    const schemaVersion = fill(open, partial);
    putInPlace(partial, target);
    return { file: target, bytes: statSync(target).size, schemaVersion };
  } catch (error) {
    throw explained(error, blamed);
  } finally {
    rmSync(partial, { force: true });
  }
}

/** Reads the log too, so that nothing is missing after a crash; a running server has the file to itself and is not read. */
function copyInto(open: OpenDatabase, file: string, target: string): void {
  inspect(open, file, "quick_check");
  const database = open(file, { readOnly: true });
  try {
    database.exec(`VACUUM INTO '${target.replaceAll("'", "''")}'`);
  } finally {
    database.close();
  }
}

export type RestoreOptions = { readonly existing: "refuse" | "replace" };

/** Checks a copy of the backup, then gives it the name: at any moment there is the old data or the new. */
export async function restoreDatabase(
  source: string,
  directory: string,
  { existing }: RestoreOptions,
): Promise<Restored> {
  const file = databaseFile(directory);
  const open = await loadDriver();
  if (!exists(source)) throw new InterlockError("data_left_alone", `there is no file ${source}`);
  if (exists(`${source}-wal`)) {
    const detail = `${source} has a log beside it: it is the data of a server, not a backup`;
    throw new InterlockError("data_left_alone", detail);
  }
  if (exists(file) && existing === "refuse") {
    throw new InterlockError("data_left_alone", `there is data in ${directory}: say --replace to replace it`);
  }
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  const partial = `${file}.restoring-${process.pid}`;
  try {
    copyFileSync(source, partial);
    chmodSync(partial, 0o600);
    const schemaVersion = checkBackup(open, partial, source);
    const before = replaceWith(open, file, partial);
    const bytes = statSync(file).size;
    return { file, bytes, schemaVersion, ...(before === undefined ? {} : { before }) };
  } finally {
    for (const end of ["", "-wal", "-shm"]) rmSync(partial + end, { force: true });
  }
}

function checkBackup(open: OpenDatabase, copy: string, source: string): number {
  try {
    const version = inspect(open, copy, "integrity_check");
    if (version === 0) throw new InterlockError("store_corrupt", "it is empty");
    return version;
  } catch (error) {
    const { code, detail } = explained(error, copy);
    // Told by the name that the caller knows.
    throw new InterlockError(code, detail.replaceAll(copy, source), { cause: error });
  }
}

function replaceWith(open: OpenDatabase, file: string, copy: string): string | undefined {
  if (!exists(file)) {
    // Left by the file that was here: SQLite would apply them to the new one, or not open it at all.
    for (const end of ["-wal", "-shm", "-journal"]) rmSync(file + end, { force: true });
    putInPlace(copy, file);
    return undefined;
  }
  const before = `${file}.before-restore`;
  for (const end of ["", "-wal"]) rmSync(before + end, { force: true });
  const owned = own(open, file);
  if (owned.kind === "broken") {
    renameSync(file, before);
    if (exists(`${file}-wal`)) renameSync(`${file}-wal`, `${before}-wal`);
    rmSync(`${file}-shm`, { force: true });
    putInPlace(copy, file);
  } else {
    linkSync(file, before);
    putInPlace(copy, file);
    letGo(owned.database);
  }
  return before;
}

/** Removes the data and what a restore has kept of it; does nothing when there is none. */
export async function removeDatabase(directory: string): Promise<void> {
  const file = databaseFile(directory);
  if (!exists(file)) return;
  const owned = own(await loadDriver(), file);
  for (const end of ["-wal", "-shm", ".before-restore", ".before-restore-wal", ""]) {
    rmSync(file + end, { force: true });
  }
  if (owned.kind === "owned") letGo(owned.database);
}

type Owned = { readonly kind: "owned"; readonly database: Database } | { readonly kind: "broken" };

/**
 * Takes the file from everybody else and copies its log into it: with the name changes the log must not be there any more,
 * or SQLite would apply it to the other file. What cannot be read has no owner either, since that would have been reported first.
 */
function own(open: OpenDatabase, file: string): Owned {
  let database: Database | undefined;
  try {
    if (isBroken(open, file)) return { kind: "broken" };
    database = openForWriting(open, file);
    database.exec("PRAGMA wal_checkpoint(TRUNCATE); PRAGMA journal_mode = DELETE");
    return { kind: "owned", database };
  } catch (error) {
    database?.close();
    const known = explained(error, file);
    if (known.code === "store_corrupt") return { kind: "broken" };
    throw known;
  }
}

/** Asked without writing: closing a connection that could write deletes the log of a file that cannot be read. */
function isBroken(open: OpenDatabase, file: string): boolean {
  try {
    inspect(open, file, "quick_check");
    return false;
  } catch (error) {
    const known = explained(error, file);
    if (known.code === "store_in_use" || known.code === "store_unavailable") throw known;
    return known.code === "store_corrupt";
  }
}

/** The driver for Node 20 would keep the lock as long as a prepared statement lives. */
function letGo(database: Database): void {
  database.exec("PRAGMA locking_mode = NORMAL; SELECT 1 FROM sqlite_schema");
  database.close();
}

/** On the disk under its new name when this returns. */
function putInPlace(from: string, to: string): void {
  sync(from);
  renameSync(from, to);
  sync(dirname(to));
}

function sync(path: string): void {
  const opened = openSync(path, "r");
  fsyncSync(opened);
  closeSync(opened);
}

function exists(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false }) !== undefined;
}
