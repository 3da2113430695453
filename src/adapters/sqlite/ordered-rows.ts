// The table of one kind of record: rows by scope and member, found and scanned in the order of their keys.
import type { RecordKind } from "../operations/records.ts";
import type { Database, Statement } from "./driver.ts";
import { decodeKey, encodeKey, tableOf } from "./schema.ts";

export type Range = { readonly from: string; readonly limit: number; readonly direction: 1 | -1 };

export type StoredRow = { readonly member: string; readonly text: string };

/** Rows as they are in the file, each value as text. Scopes are given as they are stored, members as they are. */
export type StoredRows = {
  read(scope: string, member: string): string | undefined;
  put(scope: string, member: string, text: string): void;
  erase(scope: string, member: string): void;
  /** Both ends included. */
  eraseRange(scope: string, from: string, to: string): void;
  count(scope: string): number;
  /** The greatest member of the scope; empty if it has none. */
  last(scope: string): string;
  scan(scope: string, range: Range): StoredRow[];
};

export class OrderedRows implements StoredRows {
  readonly #get: Statement;
  readonly #put: Statement;
  readonly #erase: Statement;
  readonly #eraseRange: Statement;
  readonly #count: Statement;
  readonly #scan: Statement;
  readonly #scanBack: Statement;

  constructor(database: Database, kind: RecordKind) {
    const table = tableOf(kind);
    this.#get = database.prepare(`SELECT value FROM ${table} WHERE scope = ? AND member = ?`);
    this.#put = database.prepare(
      `INSERT INTO ${table} (scope, member, value) VALUES (?, ?, ?)
       ON CONFLICT (scope, member) DO UPDATE SET value = excluded.value`,
    );
    this.#erase = database.prepare(`DELETE FROM ${table} WHERE scope = ? AND member = ?`);
    this.#eraseRange = database.prepare(`DELETE FROM ${table} WHERE scope = ? AND member BETWEEN ? AND ?`);
    this.#count = database.prepare(`SELECT COUNT(*) AS size FROM ${table} WHERE scope = ?`);
    this.#scan = prepareScan(database, table, 1);
    this.#scanBack = prepareScan(database, table, -1);
  }

  read(scope: string, member: string): string | undefined {
    const found = this.#get.get(scope, encodeKey(member));
    return (found as { readonly value: string } | undefined)?.value;
  }

  put(scope: string, member: string, text: string): void {
    this.#put.run(scope, encodeKey(member), text);
  }

  erase(scope: string, member: string): void {
    this.#erase.run(scope, encodeKey(member));
  }

  eraseRange(scope: string, from: string, to: string): void {
    this.#eraseRange.run(scope, encodeKey(from), encodeKey(to));
  }

  count(scope: string): number {
    return (this.#count.get(scope) as { readonly size: number }).size;
  }

  last(scope: string): string {
    return this.scan(scope, { from: "\uffff\uffff", limit: 1, direction: -1 })[0]?.member ?? "";
  }

  scan(scope: string, { from, limit, direction }: Range): StoredRow[] {
    const statement = direction === 1 ? this.#scan : this.#scanBack;
    return storedRows(statement.all(scope, encodeKey(from), limit));
  }
}

export function prepareScan(database: Database, table: string, direction: 1 | -1): Statement {
  const [beyond, order] = direction === 1 ? ["> ?", "member"] : ["< ?", "member DESC"];
  return database.prepare(
    `SELECT member, value FROM ${table} WHERE scope = ? AND member ${beyond} ORDER BY ${order} LIMIT ?`,
  );
}

export function storedRows(found: readonly unknown[]): StoredRow[] {
  return (found as ReadonlyArray<{ readonly member: string; readonly value: string }>).map((row) => ({
    member: decodeKey(row.member),
    text: row.value,
  }));
}
