// The records of one run in one row while the run is small: a commit then writes one row instead of a dozen.
import type { RecordKind, RecordKinds } from "../operations/records.ts";
import type { Database, Statement } from "./driver.ts";
import { encodeKey } from "./text-key.ts";

/** Kinds whose scope is one run. */
export const bundledKinds: ReadonlySet<RecordKind> = new Set<RecordKind>([
  "runRecord",
  "inbox",
  "timeline",
  "job",
  "timer",
]);

/** `text` is the member as it stands in the row, made when it is first written. */
type Cell = { readonly kind: RecordKind; readonly member: string; readonly value: unknown; text?: string };

export type Bundle = {
  readonly scope: string;
  readonly cells: Map<string, Cell>;
  dirty: boolean;
};

/** A larger run is kept in rows from then on, so that a commit never writes more than this for what it did not change. */
const bundleBytesMax = 65_536;

/** Bundles remembered between batches: the runs that are under way (about 5 KB each). */
const rememberedMax = 4_000;

/** The value of a run that is kept in rows. */
const inRows = "";

export type PutRow = (kind: RecordKind, scope: string, member: string, text: string) => void;

export class RunBundles {
  readonly #bundles = new Map<string, Bundle | "rows">();
  readonly #dirty: Bundle[] = [];
  readonly #undo: Array<() => void> = [];
  readonly #get: Statement;
  readonly #put: Statement;
  readonly #erase: Statement;

  constructor(database: Database) {
    this.#get = database.prepare("SELECT value FROM run_bundle WHERE scope = ?");
    this.#put = database.prepare(
      "INSERT INTO run_bundle (scope, value) VALUES (?, ?) ON CONFLICT (scope) DO UPDATE SET value = excluded.value",
    );
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
    if (bundle.dirty) return;
    bundle.dirty = true;
    this.#dirty.push(bundle);
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

  /** A bundle stays dirty: written as it was, it does no harm. */
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
    for (const bundle of this.#dirty) bundle.dirty = false;
    this.#dirty.length = 0;
    if (this.#bundles.size > rememberedMax) this.#bundles.clear();
  }

  /** What is remembered may never have been stored. */
  forget(): void {
    this.#bundles.clear();
    this.#dirty.length = 0;
    this.#undo.length = 0;
  }

  #writeOne({ scope, cells }: Bundle, putRow: PutRow): number {
    if (cells.size === 0) {
      this.#erase.run(encodeKey(scope));
      this.#bundles.delete(scope);
      return 0;
    }
    const texts: string[] = [];
    let length = 2;
    for (const cell of cells.values()) {
      cell.text ??= JSON.stringify(cell.value);
      texts.push(`${JSON.stringify(cellKey(cell.kind, cell.member))}:${cell.text}`);
      length += cell.text.length + cell.member.length + 20;
    }
    if (length > bundleBytesMax) {
      for (const { kind, member, text = "" } of cells.values()) putRow(kind, scope, member, text);
      this.#put.run(encodeKey(scope), inRows);
      this.#bundles.set(scope, "rows");
    } else {
      this.#put.run(encodeKey(scope), `{${texts.join(",")}}`);
    }
    return length;
  }

  #read(scope: string): Bundle | "rows" {
    const found = this.#get.get(encodeKey(scope)) as { readonly value: string } | undefined;
    const bundle = found?.value === inRows ? "rows" : bundleFrom(scope, found?.value);
    this.#bundles.set(scope, bundle);
    return bundle;
  }
}

function bundleFrom(scope: string, text: string | undefined): Bundle {
  const cells = new Map<string, Cell>();
  for (const [key, value] of Object.entries(JSON.parse(text ?? "{}") as Record<string, unknown>)) {
    const space = key.indexOf(" ");
    cells.set(key, { kind: key.slice(0, space) as RecordKind, member: key.slice(space + 1), value });
  }
  return { scope, cells, dirty: false };
}

function cellKey(kind: RecordKind, member: string): string {
  return `${kind} ${member}`;
}
