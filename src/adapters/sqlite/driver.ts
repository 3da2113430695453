// Which SQLite the process uses: the built-in one where Node has it, else the package with the same API.
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
