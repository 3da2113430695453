// Which SQLite the process uses, the built-in one where Node has it, else the package with the same API, and what its errors mean.
import { InterlockError } from "../../errors.ts";

/** The part of the node:sqlite API that the store needs. */
export type Statement = {
  run(...parameters: ReadonlyArray<string | number>): unknown;
  get(...parameters: ReadonlyArray<string | number>): unknown;
  all(...parameters: ReadonlyArray<string | number>): unknown[];
};

export type Database = {
  exec(sql: string): void;
  prepare(sql: string): Statement;
  function(name: string, implementation: (value: string | number) => null): void;
  close(): void;
};

export type OpenDatabase = (file: string, options: { readonly readOnly: boolean }) => Database;

type SqliteModule = {
  readonly DatabaseSync: new (file: string, options: { readonly readOnly: boolean }) => Database;
};

/** Loaded only when a store is opened, so that a process on Redis needs neither. */
export async function loadDriver(): Promise<OpenDatabase> {
  const { DatabaseSync } = builtInModule() ?? (await packageModule());
  return (file, options) => new DatabaseSync(file, options);
}

/** Absent before Node 22.13. Node 22 calls it experimental, on standard error and at every start: the product is tested on it. */
function builtInModule(): SqliteModule | undefined {
  const { emitWarning } = process;
  process.emitWarning = () => {};
  try {
    return process.getBuiltinModule?.("node:sqlite") as SqliteModule | undefined;
  } finally {
    process.emitWarning = emitWarning;
  }
}

async function packageModule(): Promise<SqliteModule> {
  try {
    return (await import("@photostructure/sqlite")) as unknown as SqliteModule;
  } catch (cause) {
    throw new InterlockError(
      "store_unsuitable",
      "SQLite is missing: use Node 22.13 or later, or install the optional package @photostructure/sqlite",
      { cause },
    );
  }
}

type SqliteFailure =
  /** No room on the disk: nothing was kept, and it may work again later. */
  | "disk_full"
  /** The disk or the file can no longer be trusted: a failed write or fsync is never tried again. */
  | "broken"
  /** Another process, or another store of this one, has the file open. */
  | "in_use"
  /** Anything else, errors that are not SQLite's among them. */
  | "other";

export function failureOf(error: unknown): SqliteFailure {
  const code = resultCodeOf(error);
  // SQLITE_IOERR_SHMSIZE: 32 KiB for the index of the log do not fit; nothing of the data was touched.
  if (code === 4874) return "disk_full";
  // The low byte is the primary code; the bytes above it say more, such as which call failed.
  switch (code & 0xff) {
    case 5: // SQLITE_BUSY
    case 6: // SQLITE_LOCKED
      return "in_use";
    case 10: // SQLITE_IOERR
    case 11: // SQLITE_CORRUPT
    case 26: // SQLITE_NOTADB
      return "broken";
    case 13: // SQLITE_FULL
      return "disk_full";
    default:
      return "other";
  }
}

export function isCorruption(error: unknown): boolean {
  return [11, 26].includes(resultCodeOf(error) & 0xff);
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** 0 for errors that are not SQLite's. */
function resultCodeOf(error: unknown): number {
  const code = error instanceof Error && "errcode" in error ? error.errcode : 0;
  return typeof code === "number" ? code : 0;
}
