// Records in SQLite. Changes collect in memory during a batch and reach the tables once, when the batch is written.
import type { RunId } from "../../domain/run.ts";
import { lockMember } from "../operations/locks.ts";
import { type RecordKind, type RecordKinds, type Records, recordKinds } from "../operations/records.ts";
import { runLock } from "../operations/run-records.ts";
import type { Database } from "./driver.ts";
import { KeyRows } from "./key-rows.ts";
import { LatestMembers } from "./latest-members.ts";
import { OrderedRows, type Range, type StoredRows } from "./ordered-rows.ts";
import { bundledKinds, RunBundles } from "./run-bundles.ts";
import { encodeKey } from "./schema.ts";

/** A row as the batch sees it; `value` undefined means that there is none. */
type Row = {
  readonly scope: Scope;
  readonly member: string;
  value: unknown;
  changed: boolean;
  /** False when it was changed without having been looked for: what was there before is not known. */
  readonly isRead: boolean;
};

/** What is known of a scope: some of its rows, its size once that was asked for, and which members it cannot have. */
type Scope = {
  readonly name: string;
  /** The name as it is in the file. */
  readonly key: string;
  readonly table: Table;
  readonly rows: Map<string, Row>;
  size: number | undefined;
  latest: LatestMembers | undefined;
};

type Table = {
  readonly kind: RecordKind;
  readonly stored: StoredRows;
  readonly scopes: Map<string, Scope>;
  /** New members nearly always follow all others: one that does is not looked for in the file. */
  readonly isAscending: boolean;
  /** Small runs keep these records in their bundles. */
  readonly isBundled: boolean;
};

/** What takes back one change. */
type Undo = {
  readonly row: Row;
  readonly value: unknown;
  readonly changed: boolean;
  readonly size: number | undefined;
};

/** Read several times by every operation. */
const hotKinds: ReadonlySet<RecordKind> = new Set<RecordKind>(["tenant", "fence", "lock", "proof", "active"]);

/** Members are numbers in digits. */
const numberedKinds: ReadonlySet<RecordKind> = new Set<RecordKind>(["event", "trail"]);

const ascendingKinds: ReadonlySet<RecordKind> = new Set<RecordKind>(["run", "active"]);

/** Rows and scopes remembered between batches; beyond it all are forgotten and read again (about 35 MB). A run under way has two. */
const rememberedMax = 40_000;

/**
 * Of a new file. SQLite writes a page per row at least, and more for a long value. Two system calls write a page into the log:
 * with 8 KiB results and runs take 9 % less of the thread than with 4 KiB, starts the same.
 */
export const pageBytes = 8192;

export class SqliteRecords implements Records {
  readonly #tables: Readonly<Record<RecordKind, Table>>;
  readonly #bundles: RunBundles;
  readonly #keyRows: KeyRows;
  /** Rows that became known in this batch. */
  readonly #fresh: Row[] = [];
  readonly #changed: Row[] = [];
  readonly #undo: Undo[] = [];
  #remembered = 0;

  constructor(database: Database) {
    this.#bundles = new RunBundles(database);
    const keyRows = new KeyRows(database);
    this.#keyRows = keyRows;
    const tables = recordKinds.map((kind): [RecordKind, Table] => {
      const stored = kind === "reservation" ? keyRows : new OrderedRows(database, kind);
      const isAscending = ascendingKinds.has(kind);
      return [kind, { kind, stored, scopes: new Map(), isAscending, isBundled: bundledKinds.has(kind) }];
    });
    this.#tables = Object.fromEntries(tables) as Record<RecordKind, Table>;
  }

  get<Kind extends RecordKind>(kind: Kind, scope: string, member: string): RecordKinds[Kind] | undefined {
    const table = this.#tables[kind];
    const bundle = this.#bundleOf(table, scope);
    if (bundle !== undefined) return this.#bundles.get(bundle, kind, member);
    return this.#row(this.#scope(table, scope), member).value as RecordKinds[Kind] | undefined;
  }

  put<Kind extends RecordKind>(kind: Kind, scope: string, member: string, value: RecordKinds[Kind]): void {
    this.#changeRecord(kind, scope, member, value);
  }

  erase(kind: RecordKind, scope: string, member: string): void {
    this.#changeRecord(kind, scope, member, undefined);
  }

  /** Counted at the first use of a scope, then kept up to date. */
  size(kind: RecordKind, name: string): number {
    const table = this.#tables[kind];
    const bundle = this.#bundleOf(table, name);
    if (bundle !== undefined) return this.#bundles.members(bundle, kind).length;
    const scope = this.#scope(table, name);
    if (scope.size !== undefined) return scope.size;
    const { stored } = table;
    let size = stored.count(scope.key);
    for (const row of this.#changedIn(scope)) {
      const was = stored.read(scope.key, row.member) !== undefined;
      if (was !== (row.value !== undefined)) size += was ? -1 : 1;
    }
    scope.size = size;
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
    for (const { row, value, changed, size } of this.#undo.reverse()) {
      if (!changed) this.#changed.pop();
      row.value = changed || row.isRead ? value : this.#read(row.scope, row.member);
      row.changed = changed;
      row.scope.size = size;
    }
    this.#undo.length = 0;
  }

  get hasChanges(): boolean {
    return this.#changed.length > 0 || this.#bundles.hasChanges;
  }

  /** Writes every changed row into its table, once. Gives the pages that this may have touched. */
  write(): number {
    const bundleBytes = this.#bundles.write((kind, scope, member, text) => {
      this.#tables[kind].stored.put(encodeKey(scope), member, text);
    });
    let pages = Math.ceil(bundleBytes / pageBytes);
    const dropped = new Map<Scope, string[]>();
    for (const { scope, member, value } of this.#changed) {
      const { kind, stored } = scope.table;
      if (value === undefined) {
        if (numberedKinds.has(kind)) membersOf(dropped, scope).push(member);
        else stored.erase(scope.key, member);
        pages += 1;
      } else {
        const text = JSON.stringify(value);
        stored.put(scope.key, member, text);
        pages += 1 + Math.floor(text.length / pageBytes);
      }
    }
    for (const [{ table, key }, members] of dropped) eraseNumbered(table.stored, key, members);
    return pages + this.#keyRows.order();
  }

  /** Ends a batch whose transaction was committed. */
  committed(): void {
    this.#bundles.committed();
    this.#keyRows.committed();
    for (const row of this.#changed) {
      row.changed = false;
      this.#leaveUnlessRemembered(row);
      if (hasEnded(row)) this.#leaveRun(row);
    }
    for (const row of this.#fresh) this.#leaveUnlessRemembered(row);
    this.#changed.length = 0;
    this.#fresh.length = 0;
    if (this.#remembered > rememberedMax) this.#forgetRows();
  }

  /** Ends a batch that was rolled back: what is remembered may never have been stored. */
  forget(): void {
    this.#bundles.forget();
    this.#keyRows.forget();
    this.#forgetRows();
    this.#changed.length = 0;
    this.#fresh.length = 0;
    this.#undo.length = 0;
  }

  #forgetRows(): void {
    for (const { scopes } of Object.values(this.#tables)) scopes.clear();
    this.#remembered = 0;
  }

  #leaveUnlessRemembered(row: Row): void {
    if (isRemembered(row)) return;
    if (row.scope.rows.delete(row.member)) this.#remembered -= 1;
  }

  /** The run has ended: its records and its lock are hardly asked for again. */
  #leaveRun({ scope, member }: Row): void {
    this.#bundles.leave(`${scope.name}/${member}`);
    const locks = this.#tables.lock.scopes.get(scope.name);
    const lock = locks?.rows.get(lockMember(runLock(member as RunId)));
    if (lock === undefined || lock.value !== undefined) return;
    lock.scope.rows.delete(lock.member);
    this.#remembered -= 1;
  }

  #changeRecord(kind: RecordKind, scope: string, member: string, value: unknown): void {
    const table = this.#tables[kind];
    const bundle = this.#bundleOf(table, scope);
    if (bundle !== undefined) this.#bundles.change(bundle, kind, member, value);
    else this.#change(this.#scope(table, scope), member, value);
  }

  #change(scope: Scope, member: string, value: unknown): void {
    const { size } = scope;
    // Asked for before anything changes: the file does not have this batch's members yet.
    const latest = latestOf(scope);
    const row = size === undefined ? this.#rowUnread(scope, member) : this.#row(scope, member);
    if (size !== undefined && (row.value === undefined) !== (value === undefined)) {
      scope.size = size + (value === undefined ? -1 : 1);
    }
    this.#undo.push({ row, value: row.value, changed: row.changed, size });
    if (!row.changed) this.#changed.push(row);
    row.value = value;
    row.changed = true;
    latest?.add(member);
  }

  #row(scope: Scope, member: string): Row {
    const known = scope.rows.get(member);
    if (known !== undefined) return known;
    const value = this.#read(scope, member);
    return this.#remember({ scope, member, value, changed: false, isRead: true });
  }

  /** For a change that need not know what was there before. */
  #rowUnread(scope: Scope, member: string): Row {
    const known = scope.rows.get(member);
    if (known !== undefined) return known;
    return this.#remember({ scope, member, value: undefined, changed: false, isRead: false });
  }

  #remember(row: Row): Row {
    row.scope.rows.set(row.member, row);
    this.#fresh.push(row);
    this.#remembered += 1;
    return row;
  }

  #read(scope: Scope, member: string): unknown {
    if (latestOf(scope)?.isNew(member) === true) return undefined;
    const text = scope.table.stored.read(scope.key, member);
    return text === undefined ? undefined : JSON.parse(text);
  }

  #scanned<Kind extends RecordKind>(kind: Kind, name: string, range: Range) {
    const table = this.#tables[kind];
    const bundle = this.#bundleOf(table, name);
    if (bundle !== undefined) return inRange(this.#bundles.members(bundle, kind), range);
    const changed = new Map<string, unknown>();
    const scope = this.#scope(table, name);
    for (const row of this.#changedIn(scope)) {
      if (isBeyond(row.member, range)) changed.set(row.member, row.value);
    }
    // As many more as the batch may have erased, so that enough are left.
    const rows = table.stored
      .scan(scope.key, { ...range, limit: range.limit + changed.size })
      .filter((row) => !changed.has(row.member))
      .map((row) => ({ member: row.member, value: JSON.parse(row.text) as RecordKinds[Kind] }));
    for (const [member, value] of changed) {
      if (value !== undefined) rows.push({ member, value: value as RecordKinds[Kind] });
    }
    return changed.size > 0 ? inRange(rows, range) : rows.slice(0, range.limit);
  }

  #bundleOf({ isBundled }: Table, scope: string) {
    return isBundled ? this.#bundles.of(scope) : undefined;
  }

  #scope(table: Table, name: string): Scope {
    const known = table.scopes.get(name);
    if (known !== undefined) return known;
    const scope = { name, key: encodeKey(name), table, rows: new Map(), size: undefined, latest: undefined };
    table.scopes.set(name, scope);
    this.#remembered += 1;
    return scope;
  }

  #changedIn(scope: Scope): readonly Row[] {
    return this.#changed.filter((row) => row.scope === scope);
  }
}

function membersOf(dropped: Map<Scope, string[]>, scope: Scope): string[] {
  const known = dropped.get(scope);
  if (known !== undefined) return known;
  const members: string[] = [];
  dropped.set(scope, members);
  return members;
}

/** Every event drops the oldest one of a full feed: rows without a gap between them are erased by one statement. */
function eraseNumbered(stored: StoredRows, scope: string, members: readonly string[]): void {
  for (let start = 0; start < members.length; ) {
    let end = start + 1;
    while (end < members.length && Number(members[end]) === Number(members[end - 1]) + 1) end += 1;
    const [from = "", to = ""] = [members[start], members[end - 1]];
    if (start + 1 === end) stored.erase(scope, from);
    else stored.eraseRange(scope, from, to);
    start = end;
  }
}

function latestOf(scope: Scope): LatestMembers | undefined {
  const { isAscending, stored } = scope.table;
  if (isAscending) scope.latest ??= new LatestMembers(stored.last(scope.key));
  return scope.latest;
}

/** A run that goes on is read by each of its results, and so is its lock, which is hardly ever there. */
function isRemembered(row: Row): boolean {
  const { kind } = row.scope.table;
  if (row.value === undefined) return kind === "lock";
  return kind === "run" ? !hasEnded(row) : hotKinds.has(kind);
}

function hasEnded({ scope, value }: Row): boolean {
  return scope.table.kind === "run" && (value as RecordKinds["run"] | undefined)?.endedAtMs !== undefined;
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
