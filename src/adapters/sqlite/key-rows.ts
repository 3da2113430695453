// Rows of idempotency keys in the order of arrival, with an order by key that is written for thousands of them at a time.
import type { Database, Statement } from "./driver.ts";
import { prepareScan, type Range, type StoredRow, type StoredRows, storedRows } from "./ordered-rows.ts";
import { encodeKey } from "./schema.ts";

/**
 * Digests come in no order, so an index changes a page of its own for every key: 1.4 pages of a start's 3.1, in the log and
 * again at the checkpoint. The rows themselves follow each other. What is younger than the last ordering is found in
 * memory; with so many at a time an order of 100,000 keys (about 1,000 pages) is changed by 0.1 pages for each, as reckoned.
 */
const youngMax = 8_192;

type Found = { readonly id: number; readonly value: string };

type Looked = { readonly scope: string; readonly found: Found | undefined };

export class KeyRows implements StoredRows {
  readonly #database: Database;
  readonly #getYoung: Statement;
  readonly #get: Statement;
  readonly #insert: Statement;
  readonly #update: Statement;
  readonly #erase: Statement;
  readonly #countOrdered: Statement;
  readonly #orderYoung: Statement;
  readonly #setOrdered: Statement;
  readonly #scan: Statement;
  readonly #scanBack: Statement;
  /** By scope and member, both encoded: the row's number. Undefined until it is read from the file. */
  #young: Map<string, Map<string, number>> | undefined;
  #youngSize = 0;
  /** Looked for in the order during this batch: an operation reads a key before it writes it. */
  readonly #looked = new Map<string, Looked>();
  #orderedUpTo = 0;
  #lastId = 0;

  constructor(database: Database) {
    this.#database = database;
    this.#getYoung = database.prepare("SELECT value FROM reservation WHERE id = ?");
    this.#get = database.prepare(
      `SELECT reservation.id, reservation.value FROM reservation_order
       JOIN reservation ON reservation.id = reservation_order.id
       WHERE reservation_order.scope = ? AND beginning = ? AND member = ?`,
    );
    this.#insert = database.prepare("INSERT INTO reservation (id, scope, member, value) VALUES (?, ?, ?, ?)");
    this.#update = database.prepare("UPDATE reservation SET value = ? WHERE id = ?");
    this.#erase = database.prepare("DELETE FROM reservation WHERE id = ?");
    this.#countOrdered = database.prepare("SELECT COUNT(*) AS size FROM reservation_order WHERE scope = ?");
    this.#orderYoung = database.prepare(
      `INSERT INTO reservation_order SELECT scope, substr(member, 1, 10), id FROM reservation WHERE id > ? ORDER BY 1, 2`,
    );
    this.#setOrdered = database.prepare("UPDATE meta SET value = ? WHERE name = 'reservations_ordered'");
    this.#scan = prepareScan(database, "reservation", 1);
    this.#scanBack = prepareScan(database, "reservation", -1);
  }

  read(scope: string, member: string): string | undefined {
    return this.#find(scope, encodeKey(member))?.value;
  }

  put(scope: string, member: string, text: string): void {
    const memberKey = encodeKey(member);
    const known = this.#youngOf(scope)?.get(memberKey) ?? this.#findOrdered(scope, memberKey)?.id;
    if (known !== undefined) {
      this.#update.run(text, known);
      return;
    }
    this.#lastId += 1;
    this.#insert.run(this.#lastId, scope, memberKey, text);
    this.#addYoung(scope, memberKey, this.#lastId);
  }

  erase(scope: string, member: string): void {
    const memberKey = encodeKey(member);
    const young = this.#youngOf(scope)?.get(memberKey);
    if (young !== undefined) {
      this.#erase.run(young);
      this.#youngOf(scope)?.delete(memberKey);
      this.#youngSize -= 1;
      return;
    }
    const ordered = this.#findOrdered(scope, memberKey);
    // A trigger takes it out of the order, also when an operator erases it.
    if (ordered !== undefined) this.#erase.run(ordered.id);
  }

  eraseRange(): void {
    throw new Error("keys come in no order");
  }

  count(scope: string): number {
    const { size } = this.#countOrdered.get(scope) as { readonly size: number };
    return size + (this.#youngOf(scope)?.size ?? 0);
  }

  last(): string {
    throw new Error("keys come in no order");
  }

  /** Looks at the rows of every scope: no operation scans keys, only comparisons of whole stores do. */
  scan(scope: string, { from, limit, direction }: Range): StoredRow[] {
    const statement = direction === 1 ? this.#scan : this.#scanBack;
    return storedRows(statement.all(scope, encodeKey(from), limit));
  }

  /** Part of writing a batch: puts the young keys in order when there are enough. Gives the pages that this may have touched. */
  order(): number {
    if (this.#youngSize < youngMax) return 0;
    const amount = this.#youngSize;
    this.#orderYoung.run(this.#orderedUpTo);
    this.#setOrdered.run(String(this.#lastId));
    this.#orderedUpTo = this.#lastId;
    this.#young = new Map();
    this.#youngSize = 0;
    return amount;
  }

  committed(): void {
    this.#looked.clear();
  }

  /** After a batch that was rolled back. */
  forget(): void {
    this.#looked.clear();
    this.#young = undefined;
    this.#youngSize = 0;
  }

  #find(scope: string, memberKey: string): { readonly value: string } | undefined {
    const young = this.#youngOf(scope)?.get(memberKey);
    if (young === undefined) return this.#findOrdered(scope, memberKey);
    return this.#getYoung.get(young) as { readonly value: string };
  }

  #findOrdered(scope: string, memberKey: string): Found | undefined {
    const looked = this.#looked.get(memberKey);
    if (looked?.scope === scope) return looked.found;
    const found = this.#get.get(scope, beginningOf(memberKey), memberKey) as Found | undefined;
    this.#looked.set(memberKey, { scope, found });
    return found;
  }

  #youngOf(scope: string): Map<string, number> | undefined {
    this.#young ??= this.#readYoung();
    return this.#young.get(scope);
  }

  #readYoung(): Map<string, Map<string, number>> {
    const ordered = this.#database
      .prepare("SELECT value FROM meta WHERE name = 'reservations_ordered'")
      .get();
    this.#orderedUpTo = Number((ordered as { readonly value: string }).value);
    const rows = this.#database
      .prepare("SELECT id, scope, member FROM reservation WHERE id > ? ORDER BY id")
      .all(this.#orderedUpTo) as ReadonlyArray<{ id: number; scope: string; member: string }>;
    this.#young = new Map();
    this.#youngSize = 0;
    for (const { id, scope, member } of rows) this.#addYoung(scope, member, id);
    // A number is not given twice, also after the rows with the greatest ones were erased: none is mistaken for an ordered one.
    this.#lastId = Math.max(this.#orderedUpTo, rows.at(-1)?.id ?? 0);
    return this.#young;
  }

  #addYoung(scope: string, memberKey: string, id: number): void {
    const young = this.#young as Map<string, Map<string, number>>;
    let own = young.get(scope);
    if (own === undefined) {
      own = new Map();
      young.set(scope, own);
    }
    own.set(memberKey, id);
    this.#youngSize += 1;
  }
}

/** In the order of the keys; two that begin alike are told apart by their rows. */
function beginningOf(memberKey: string): string {
  return memberKey.slice(0, 10);
}
