// The records of a small run as a log: every commit appends one row with what it changed, instead of writing a dozen rows.
import type { RecordKind, RecordKinds } from "../operations/records.ts";
import type { Database, Statement } from "./driver.ts";
import { encodeKey } from "./schema.ts";

/** Kinds whose scope is one run. */
export const bundledKinds: ReadonlySet<RecordKind> = new Set<RecordKind>([
  "runRecord",
  "inbox",
  "timeline",
  "job",
  "timer",
]);

type Cell = { readonly kind: RecordKind; readonly member: string; readonly value: unknown };

type Bundle = {
  readonly scope: string;
  readonly cells: Map<string, Cell>;
  /** Cells changed since the last row was written. */
  readonly changed: Set<string>;
  /** Rows written for it so far, and their length. */
  rows: number;
  length: number;
};

/** A log of so many rows is written anew as one. */
const rowsMax = 32;

/** A run with a longer log is kept in rows of their own from then on: it is no longer read as a whole. */
const bundleLengthMax = 131_072;

/** Bundles remembered between batches: the runs that are under way (about 5 KB each). */
const rememberedMax = 4_000;

/** The value of a run that is kept in rows. */
const inRows = "";

type PutRow = (kind: RecordKind, scope: string, member: string, text: string) => void;

export class RunBundles {
  readonly #bundles = new Map<string, Bundle | "rows">();
  readonly #dirty: Bundle[] = [];
  readonly #undo: Array<() => void> = [];
  readonly #get: Statement;
  readonly #put: Statement;
  readonly #erase: Statement;

  constructor(database: Database) {
    this.#get = database.prepare("SELECT value FROM run_bundle WHERE scope = ? ORDER BY rowid");
    this.#put = database.prepare("INSERT INTO run_bundle (scope, value) VALUES (?, ?)");
    this.#erase = database.prepare("DELETE FROM run_bundle WHERE scope = ?");
  }

  /** Undefined when the run is kept in rows. */
  of(scope: string): Bundle | undefined {
    const known = this.#bundles.get(scope) ?? this.#read(scope);
    return known === "rows" ? undefined : known;
  }

  get<Kind extends RecordKind>(bundle: Bundle, kind: Kind, member: string): RecordKinds[Kind] | undefined {
    return bundle.cells.get(cellKey(kind, member))?.value as RecordKinds[Kind] | undefined;
  }

  change(bundle: Bundle, kind: RecordKind, member: string, value: unknown): void {
    const { cells } = bundle;
    const key = cellKey(kind, member);
    const before = cells.get(key);
    if (before === undefined && value === undefined) return;
    this.#undo.push(() => (before === undefined ? cells.delete(key) : cells.set(key, before)));
    if (value === undefined) cells.delete(key);
    else cells.set(key, { kind, member, value });
    if (bundle.changed.size === 0) this.#dirty.push(bundle);
    bundle.changed.add(key);
  }

  /** Members of a kind, in no order. */
  members<Kind extends RecordKind>(bundle: Bundle, kind: Kind) {
    return [...bundle.cells.values()]
      .filter((cell) => cell.kind === kind)
      .map(({ member, value }) => ({ member, value: value as RecordKinds[Kind] }));
  }

  keep(): void {
    this.#undo.length = 0;
  }

  /** What was changed stays marked: written as it was, it does no harm. */
  undo(): void {
    for (const takeBack of this.#undo.reverse()) takeBack();
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
    for (const { changed } of this.#dirty) changed.clear();
    this.#dirty.length = 0;
    if (this.#bundles.size > rememberedMax) this.#bundles.clear();
  }

  /** What is remembered may never have been stored. */
  forget(): void {
    this.#bundles.clear();
    this.#dirty.length = 0;
    this.#undo.length = 0;
  }

  #writeOne(bundle: Bundle, putRow: PutRow): number {
    const { scope, cells } = bundle;
    const key = encodeKey(scope);
    if (cells.size === 0) {
      this.#erase.run(key);
      this.#bundles.delete(scope);
      return 0;
    }
    const anew = bundle.rows >= rowsMax;
    const text = textOf(cells, anew ? cells.keys() : bundle.changed);
    bundle.length = anew ? text.length : bundle.length + text.length;
    if (anew || bundle.length > bundleLengthMax) this.#erase.run(key);
    if (bundle.length > bundleLengthMax) {
      for (const { kind, member, value } of cells.values())
        putRow(kind, scope, member, JSON.stringify(value));
      this.#put.run(key, inRows);
      this.#bundles.set(scope, "rows");
    } else {
      this.#put.run(key, text);
      bundle.rows = anew ? 1 : bundle.rows + 1;
    }
    return text.length;
  }

  #read(scope: string): Bundle | "rows" {
    const rows = this.#get.all(encodeKey(scope)) as ReadonlyArray<{ readonly value: string }>;
    const bundle = rows.at(-1)?.value === inRows ? "rows" : bundleFrom(scope, rows);
    this.#bundles.set(scope, bundle);
    return bundle;
  }
}

/** A cell that is gone is written as null. */
function textOf(cells: Bundle["cells"], keys: Iterable<string>): string {
  const texts: string[] = [];
  for (const key of keys)
    texts.push(`${JSON.stringify(key)}:${JSON.stringify(cells.get(key)?.value ?? null)}`);
  return `{${texts.join(",")}}`;
}

function bundleFrom(scope: string, rows: ReadonlyArray<{ readonly value: string }>): Bundle {
  const cells = new Map<string, Cell>();
  let length = 0;
  for (const { value: text } of rows) {
    length += text.length;
    for (const [key, value] of Object.entries(JSON.parse(text) as Record<string, unknown>)) {
      const space = key.indexOf(" ");
      if (value === null) cells.delete(key);
      else cells.set(key, { kind: key.slice(0, space) as RecordKind, member: key.slice(space + 1), value });
    }
  }
  return { scope, cells, changed: new Set(), rows: rows.length, length };
}

function cellKey(kind: RecordKind, member: string): string {
  return `${kind} ${member}`;
}
