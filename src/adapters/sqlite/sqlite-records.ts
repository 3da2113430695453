// Records in SQLite. Changes collect in memory during a batch and reach the tables once, when the batch is written.
import { type RecordKind, type RecordKinds, type Records, recordKinds } from "../operations/records.ts";
import type { Database, Statement } from "./driver.ts";
import { bundledKinds, RunBundles } from "./run-bundles.ts";
import { decodeKey, encodeKey, tableOf } from "./schema.ts";

/**
 * A row as the batch sees it; `value` undefined means that there is none. Rows of the hot kinds stay between batches,
 * since every operation reads them several times; all others leave when they are written.
 */
type Row = {
  readonly kind: RecordKind;
  readonly scope: string;
  readonly member: string;
  value: unknown;
  changed: boolean;
};

/** What takes back one change: the row as the batch saw it, if it did, and the size of its scope, if that was counted. */
type Undo = {
  readonly key: string;
  readonly row: Row;
  readonly before: { readonly value: unknown; readonly changed: boolean } | undefined;
  readonly sizeKey: string;
  readonly size: number | undefined;
};

type Statements = {
  readonly get: Statement;
  readonly put: Statement;
  readonly erase: Statement;
  readonly scan: Statement;
  readonly scanBack: Statement;
  readonly count: Statement;
};

type Range = { readonly from: string; readonly limit: number; readonly direction: 1 | -1 };

const hotKinds: ReadonlySet<RecordKind> = new Set<RecordKind>(["tenant", "fence", "lock", "proof"]);

/** Rows and sizes remembered between batches; beyond it all are forgotten and read again (about 10 MB). */
const rememberedMax = 20_000;

/** SQLite writes a page per row at least, and one more for every 4 KiB of its value. */
const pageBytes = 4096;

export class SqliteRecords implements Records {
  readonly #statements: ReadonlyMap<RecordKind, Statements>;
  readonly #hot = new Map<string, Row>();
  readonly #batch = new Map<string, Row>();
  readonly #changed: Row[] = [];
  readonly #sizes = new Map<string, number>();
  readonly #undo: Undo[] = [];

  readonly #bundles: RunBundles;

  constructor(database: Database) {
    this.#bundles = new RunBundles(database);
    this.#statements = new Map(recordKinds.map((kind) => [kind, prepareStatements(database, tableOf(kind))]));
  }

  get<Kind extends RecordKind>(kind: Kind, scope: string, member: string): RecordKinds[Kind] | undefined {
    const bundle = this.#bundleOf(kind, scope);
    if (bundle !== undefined) return this.#bundles.get(bundle, kind, member);
    const key = rowKey(kind, scope, member);
    const row = this.#rowsOf(kind).get(key);
    if (row !== undefined) return row.value as RecordKinds[Kind] | undefined;
    const value = this.#read(kind, scope, member);
    if (hotKinds.has(kind)) this.#hot.set(key, { kind, scope, member, value, changed: false });
    return value as RecordKinds[Kind] | undefined;
  }

  put<Kind extends RecordKind>(kind: Kind, scope: string, member: string, value: RecordKinds[Kind]): void {
    const bundle = this.#bundleOf(kind, scope);
    if (bundle !== undefined) this.#bundles.change(bundle, kind, member, value);
    else this.#change(kind, scope, member, value);
  }

  erase(kind: RecordKind, scope: string, member: string): void {
    const bundle = this.#bundleOf(kind, scope);
    if (bundle !== undefined) this.#bundles.change(bundle, kind, member, undefined);
    else this.#change(kind, scope, member, undefined);
  }

  /** Counted at the first use of a scope, then kept up to date. */
  size(kind: RecordKind, scope: string): number {
    const bundle = this.#bundleOf(kind, scope);
    if (bundle !== undefined) return this.#bundles.members(bundle, kind).length;
    const key = sizeKeyOf(kind, scope);
    const known = this.#sizes.get(key);
    if (known !== undefined) return known;
    const counted = this.#statementsOf(kind).count.get(encodeKey(scope)) as { readonly size: number };
    let size = counted.size;
    for (const row of this.#changedIn(kind, scope)) {
      const stored = this.#read(kind, scope, row.member) !== undefined;
      if (stored !== (row.value !== undefined)) size += stored ? -1 : 1;
    }
    this.#sizes.set(key, size);
    return size;
  }

  scan<Kind extends RecordKind>(kind: Kind, scope: string, after: string, limit: number) {
    return this.#scanned(kind, scope, { from: after, limit, direction: 1 });
  }

  scanBack<Kind extends RecordKind>(kind: Kind, scope: string, before: string, limit: number) {
    return this.#scanned(kind, scope, { from: before, limit, direction: -1 });
  }

  /** Ends an operation that succeeded: its changes stay in the batch. */
  keep(): void {
    this.#bundles.keep();
    this.#undo.length = 0;
  }

  /** Ends an operation that failed: takes its changes back, the last one first. */
  undo(): void {
    this.#bundles.undo();
    for (const { key, row, before, sizeKey, size } of this.#undo.reverse()) {
      if (before?.changed !== true) this.#changed.pop();
      if (before === undefined) this.#rowsOf(row.kind).delete(key);
      else Object.assign(row, before);
      if (size === undefined) this.#sizes.delete(sizeKey);
      else this.#sizes.set(sizeKey, size);
    }
    this.#undo.length = 0;
  }

  get hasChanges(): boolean {
    return this.#changed.length > 0 || this.#bundles.hasChanges;
  }

  /** Writes every changed row into its table, once. Gives the pages that this may have touched. */
  write(): number {
    const bundleBytes = this.#bundles.write((kind, scope, member, text) => {
      this.#statementsOf(kind).put.run(encodeKey(scope), encodeKey(member), text);
    });
    let pages = Math.ceil(bundleBytes / pageBytes);
    for (const { kind, scope, member, value } of this.#changed) {
      const { put, erase } = this.#statementsOf(kind);
      if (value === undefined) {
        erase.run(encodeKey(scope), encodeKey(member));
        pages += 1;
      } else {
        const text = JSON.stringify(value);
        put.run(encodeKey(scope), encodeKey(member), text);
        pages += 1 + Math.floor(text.length / pageBytes);
      }
    }
    return pages;
  }

  /** Ends a batch whose transaction was committed. */
  committed(): void {
    this.#bundles.committed();
    for (const row of this.#changed) row.changed = false;
    this.#changed.length = 0;
    this.#batch.clear();
    if (this.#hot.size + this.#sizes.size > rememberedMax) this.forget();
  }

  /** Ends a batch that was rolled back: what is remembered may never have been stored. */
  forget(): void {
    this.#bundles.forget();
    this.#hot.clear();
    this.#batch.clear();
    this.#sizes.clear();
    this.#changed.length = 0;
    this.#undo.length = 0;
  }

  #change(kind: RecordKind, scope: string, member: string, value: unknown): void {
    const sizeKey = sizeKeyOf(kind, scope);
    const size = this.#sizes.get(sizeKey);
    if (size !== undefined) {
      const existed = this.get(kind, scope, member) !== undefined;
      if (existed !== (value !== undefined)) this.#sizes.set(sizeKey, size + (existed ? -1 : 1));
    }
    const key = rowKey(kind, scope, member);
    const rows = this.#rowsOf(kind);
    const known = rows.get(key);
    const row = known ?? { kind, scope, member, value, changed: false };
    const before = known === undefined ? undefined : { value: known.value, changed: known.changed };
    this.#undo.push({ key, row, before, sizeKey, size });
    if (known === undefined) rows.set(key, row);
    if (!row.changed) this.#changed.push(row);
    row.value = value;
    row.changed = true;
  }

  #scanned<Kind extends RecordKind>(kind: Kind, scope: string, { from, limit, direction }: Range) {
    const bundle = this.#bundleOf(kind, scope);
    if (bundle !== undefined) return inRange(this.#bundles.members(bundle, kind), { from, limit, direction });
    const changed = new Map<string, unknown>();
    for (const row of this.#changedIn(kind, scope)) {
      if (isBeyond(row.member, { from, direction })) changed.set(row.member, row.value);
    }
    const { scan, scanBack } = this.#statementsOf(kind);
    // As many more as the batch may have erased, so that enough are left.
    const limits = [encodeKey(scope), encodeKey(from), limit + changed.size] as const;
    const stored = (direction === 1 ? scan : scanBack).all(...limits) as ReadonlyArray<{
      readonly member: string;
      readonly value: string;
    }>;
    const rows = stored
      .map((row) => ({ member: decodeKey(row.member), text: row.value }))
      .filter((row) => !changed.has(row.member))
      .map((row) => ({ member: row.member, value: JSON.parse(row.text) as RecordKinds[Kind] }));
    for (const [member, value] of changed) {
      if (value !== undefined) rows.push({ member, value: value as RecordKinds[Kind] });
    }
    return changed.size > 0 ? inRange(rows, { from, limit, direction }) : rows.slice(0, limit);
  }

  #bundleOf(kind: RecordKind, scope: string) {
    return bundledKinds.has(kind) ? this.#bundles.of(scope) : undefined;
  }

  #rowsOf(kind: RecordKind): Map<string, Row> {
    return hotKinds.has(kind) ? this.#hot : this.#batch;
  }

  #read(kind: RecordKind, scope: string, member: string): unknown {
    const found = this.#statementsOf(kind).get.get(encodeKey(scope), encodeKey(member));
    return found === undefined ? undefined : JSON.parse((found as { readonly value: string }).value);
  }

  #changedIn(kind: RecordKind, scope: string): readonly Row[] {
    return this.#changed.filter((row) => row.kind === kind && row.scope === scope);
  }

  #statementsOf(kind: RecordKind): Statements {
    return this.#statements.get(kind) as Statements;
  }
}

function isBeyond(member: string, { from, direction }: Omit<Range, "limit">): boolean {
  return direction === 1 ? member > from : member < from;
}

function inRange<Row extends { readonly member: string }>(
  rows: readonly Row[],
  range: Range,
): readonly Row[] {
  const { limit, direction } = range;
  return rows
    .filter(({ member }) => isBeyond(member, range))
    .sort((left, right) => (left.member < right.member ? -direction : direction))
    .slice(0, limit);
}

function prepareStatements(database: Database, table: string): Statements {
  return {
    get: database.prepare(`SELECT value FROM ${table} WHERE scope = ? AND member = ?`),
    put: database.prepare(
      `INSERT INTO ${table} (scope, member, value) VALUES (?, ?, ?)
       ON CONFLICT (scope, member) DO UPDATE SET value = excluded.value`,
    ),
    erase: database.prepare(`DELETE FROM ${table} WHERE scope = ? AND member = ?`),
    scan: database.prepare(
      `SELECT member, value FROM ${table} WHERE scope = ? AND member > ? ORDER BY member LIMIT ?`,
    ),
    scanBack: database.prepare(
      `SELECT member, value FROM ${table} WHERE scope = ? AND member < ? ORDER BY member DESC LIMIT ?`,
    ),
    count: database.prepare(`SELECT COUNT(*) AS size FROM ${table} WHERE scope = ?`),
  };
}

/** The length keeps (scope, member) pairs apart whatever characters they hold. */
function rowKey(kind: RecordKind, scope: string, member: string): string {
  return `${kind} ${scope.length} ${scope} ${member}`;
}

function sizeKeyOf(kind: RecordKind, scope: string): string {
  return `${kind} ${scope}`;
}
