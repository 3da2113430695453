// The records of a small run as a log: every commit appends one row with what it changed, instead of writing a dozen rows.
import type { RecordKind, RecordKinds } from "../operations/records.ts";
import type { Database, Statement } from "./driver.ts";
import { LatestMembers } from "./latest-members.ts";
import { decodeKey, encodeKey } from "./schema.ts";

/** Kinds whose scope is one run. */
export const bundledKinds: ReadonlySet<RecordKind> = new Set<RecordKind>([
  "runRecord",
  "inbox",
  "timeline",
  "job",
  "timer",
]);

/** A record of the run; `value` undefined means that there is none. */
type Cell = {
  readonly bundle: Bundle;
  readonly kind: RecordKind;
  readonly member: string;
  value: unknown;
  /** As the rows of the log say it. */
  written: unknown;
  changed: boolean;
};

type Bundle = {
  readonly scope: string;
  readonly cells: Partial<Record<RecordKind, Map<string, Cell>>>;
  /** Cells changed since the last row was written. */
  readonly changed: Cell[];
  /** Rows written for it so far, and their length. */
  rows: number;
  length: number;
};

type Undo = { readonly cell: Cell; readonly value: unknown; readonly changed: boolean };

/** A log of so many rows is written anew as one. */
const rowsMax = 32;

/** A run with a longer log is kept in rows of their own from then on: it is no longer read as a whole. */
const bundleLengthMax = 131_072;

/**
 * Bundles remembered between batches, in each of two generations, by the length of their text: the runs that are under way, 8,000 of
 * one step or 3,500 of three. In memory each takes two to three times as much.
 */
const rememberedLengthMax = 16 * 1_048_576;

/** Tenants whose last run is known. */
const tenantsMax = 10_000;

/** The value of a run that is kept in rows. */
const inRows = "";

type PutRow = (kind: RecordKind, scope: string, member: string, text: string) => void;

export class RunBundles {
  #bundles = new Map<string, Bundle | "rows">();
  #older = new Map<string, Bundle | "rows">();
  /** Of the bundles, not of the older ones. */
  #length = 0;
  /** By tenant with a slash: the runs that cannot be in the file. A new run nearly always follows all others. */
  readonly #latest = new Map<string, LatestMembers>();
  readonly #dirty: Bundle[] = [];
  readonly #undo: Undo[] = [];
  readonly #get: Statement;
  readonly #put: Statement;
  readonly #erase: Statement;
  readonly #getLast: Statement;

  constructor(database: Database) {
    this.#get = database.prepare("SELECT value FROM run_bundle WHERE scope = ? ORDER BY rowid");
    this.#put = database.prepare("INSERT INTO run_bundle (scope, value) VALUES (?, ?)");
    this.#erase = database.prepare("DELETE FROM run_bundle WHERE scope = ?");
    this.#getLast = database.prepare(
      "SELECT scope FROM run_bundle WHERE scope < ? ORDER BY scope DESC LIMIT 1",
    );
  }

  /** Undefined when the run is kept in rows. */
  of(scope: string): Bundle | undefined {
    const known = this.#bundles.get(scope) ?? this.#recall(scope);
    return known === "rows" ? undefined : known;
  }

  get<Kind extends RecordKind>(bundle: Bundle, kind: Kind, member: string): RecordKinds[Kind] | undefined {
    return bundle.cells[kind]?.get(member)?.value as RecordKinds[Kind] | undefined;
  }

  change(bundle: Bundle, kind: RecordKind, member: string, value: unknown): void {
    const cell = cellOf(bundle, kind, member);
    this.#undo.push({ cell, value: cell.value, changed: cell.changed });
    if (!cell.changed) {
      if (bundle.changed.length === 0) this.#dirty.push(bundle);
      bundle.changed.push(cell);
    }
    cell.value = value;
    cell.changed = true;
  }

  /** Members of a kind, in no order. */
  members<Kind extends RecordKind>(bundle: Bundle, kind: Kind) {
    const found: Array<{ readonly member: string; readonly value: RecordKinds[Kind] }> = [];
    for (const { member, value } of bundle.cells[kind]?.values() ?? []) {
      if (value !== undefined) found.push({ member, value: value as RecordKinds[Kind] });
    }
    return found;
  }

  keep(): void {
    this.#undo.length = 0;
  }

  undo(): void {
    for (const { cell, value, changed } of this.#undo.reverse()) {
      cell.value = value;
      cell.changed = changed;
      if (changed) continue;
      const { bundle } = cell;
      bundle.changed.pop();
      if (bundle.changed.length === 0) this.#dirty.splice(this.#dirty.indexOf(bundle), 1);
    }
    this.#undo.length = 0;
  }

  get hasChanges(): boolean {
    return this.#dirty.length > 0;
  }

  /** Writes every changed bundle; gives the bytes written. */
  write(putRow: PutRow): number {
    let bytes = 0;
    for (const bundle of this.#dirty) bytes += this.#writeOne(bundle, putRow);
    return bytes;
  }

  committed(): void {
    for (const { changed, cells } of this.#dirty) {
      for (const cell of changed) {
        cell.changed = false;
        cell.written = cell.value;
        if (cell.value === undefined) cells[cell.kind]?.delete(cell.member);
      }
      changed.length = 0;
    }
    this.#dirty.length = 0;
    if (this.#length <= rememberedLengthMax) return;
    this.#older = this.#bundles;
    this.#bundles = new Map();
    this.#length = 0;
  }

  /** What is remembered may never have been stored. */
  forget(): void {
    this.#bundles.clear();
    this.#older.clear();
    this.#length = 0;
    this.#latest.clear();
    this.#dirty.length = 0;
    this.#undo.length = 0;
  }

  /** The run has ended: its records are hardly asked for again. */
  leave(scope: string): void {
    const bundle = this.#bundles.get(scope);
    if (bundle !== undefined) this.#length -= lengthOf(bundle);
    this.#bundles.delete(scope);
    this.#older.delete(scope);
  }

  #writeOne(bundle: Bundle, putRow: PutRow): number {
    const { scope, changed } = bundle;
    const key = encodeKey(scope);
    if (isEmpty(bundle)) {
      this.#erase.run(key);
      this.leave(scope);
      return 0;
    }
    if (bundle.rows === 0) this.#latest.get(tenantOf(scope))?.add(scope);
    const anew = bundle.rows >= rowsMax;
    const text = anew ? textOf(liveCells(bundle), wholeOf) : textOf(changed, entryOf);
    const length = anew ? text.length : bundle.length + text.length;
    this.#length += length - bundle.length;
    bundle.length = length;
    if (anew || bundle.length > bundleLengthMax) this.#erase.run(key);
    if (bundle.length > bundleLengthMax) {
      for (const { kind, member, value } of liveCells(bundle)) {
        putRow(kind, scope, member, JSON.stringify(value));
      }
      this.#put.run(key, inRows);
      this.leave(scope);
    } else {
      this.#put.run(key, text);
      bundle.rows = anew ? 1 : bundle.rows + 1;
    }
    return text.length;
  }

  #recall(scope: string): Bundle | "rows" {
    const bundle = this.#older.get(scope) ?? this.#read(scope);
    this.#older.delete(scope);
    this.#bundles.set(scope, bundle);
    this.#length += lengthOf(bundle);
    return bundle;
  }

  #read(scope: string): Bundle | "rows" {
    if (this.#isNew(scope)) return newBundle(scope);
    const rows = this.#get.all(encodeKey(scope)) as ReadonlyArray<{ readonly value: string }>;
    return rows.at(-1)?.value === inRows ? "rows" : bundleFrom(scope, rows);
  }

  #isNew(scope: string): boolean {
    const tenant = tenantOf(scope);
    let latest = this.#latest.get(tenant);
    if (latest === undefined) {
      latest = new LatestMembers(this.#lastIn(tenant));
      if (this.#latest.size >= tenantsMax) this.#latest.clear();
      this.#latest.set(tenant, latest);
    }
    return latest.isNew(scope);
  }

  #lastIn(tenant: string): string {
    const found = this.#getLast.get(encodeKey(`${tenant}\uffff`)) as { readonly scope: string } | undefined;
    const scope = found === undefined ? "" : decodeKey(found.scope);
    return scope.startsWith(tenant) ? scope : tenant;
  }
}

/** One that is empty, or kept in rows, takes its place in memory, too. */
function lengthOf(bundle: Bundle | "rows"): number {
  return emptyLength + (bundle === "rows" ? 0 : bundle.length);
}

const emptyLength = 500;

/** With the slash. */
function tenantOf(scope: string): string {
  return scope.slice(0, scope.lastIndexOf("/") + 1);
}

function newBundle(scope: string): Bundle {
  return { scope, cells: {}, changed: [], rows: 0, length: 0 };
}

function cellOf(bundle: Bundle, kind: RecordKind, member: string): Cell {
  let own = bundle.cells[kind];
  if (own === undefined) {
    own = new Map();
    bundle.cells[kind] = own;
  }
  let cell = own.get(member);
  if (cell === undefined) {
    cell = { bundle, kind, member, value: undefined, written: undefined, changed: false };
    own.set(member, cell);
  }
  return cell;
}

function liveCells({ cells }: Bundle): readonly Cell[] {
  return Object.values(cells).flatMap((own) => [...own.values()].filter(({ value }) => value !== undefined));
}

function isEmpty(bundle: Bundle): boolean {
  if (bundle.changed.some(({ value }) => value !== undefined)) return false;
  return liveCells(bundle).length === 0;
}

/** Put together by hand: V8 would enter every key of an object, and each is new, into its table of strings. */
function textOf(cells: readonly Cell[], entry: (cell: Cell) => string): string {
  return `{${cells.map(entry).join()}}`;
}

/** A cell that is gone is written as null. */
function wholeOf({ kind, member, value }: Cell): string {
  return `${JSON.stringify(`${kind} ${member}`)}:${JSON.stringify(value ?? null)}`;
}

/** With a plus and only its new fields when others are as they were: a third of a result's text was a job that had hardly changed. */
function entryOf(cell: Cell): string {
  const { value, written } = cell;
  if (!isObject(value) || !isObject(written)) return wholeOf(cell);
  const fresh: Record<string, unknown> = {};
  let kept = 0;
  for (const field in value) {
    if (value[field] === written[field]) kept += 1;
    else if (value[field] === undefined) return wholeOf(cell);
    else fresh[field] = value[field];
  }
  for (const field in written) if (!(field in value)) return wholeOf(cell);
  return kept === 0
    ? wholeOf(cell)
    : `${JSON.stringify(`+${cell.kind} ${cell.member}`)}:${JSON.stringify(fresh)}`;
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function bundleFrom(scope: string, rows: ReadonlyArray<{ readonly value: string }>): Bundle {
  const bundle = newBundle(scope);
  for (const { value: text } of rows) {
    bundle.length += text.length;
    const values = JSON.parse(text) as Record<string, unknown>;
    for (const key in values) {
      const space = key.indexOf(" ");
      const isPart = key.startsWith("+");
      const [kind, member] = [key.slice(isPart ? 1 : 0, space) as RecordKind, key.slice(space + 1)];
      if (values[key] === null) bundle.cells[kind]?.delete(member);
      else {
        const cell = cellOf(bundle, kind, member);
        cell.value = isPart ? { ...(cell.value as object), ...(values[key] as object) } : values[key];
        cell.written = cell.value;
      }
    }
  }
  bundle.rows = rows.length;
  return bundle;
}
