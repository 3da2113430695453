// Records that know a hash of their whole content at any time: what makes two states of the store comparable.
import type { RecordKind, RecordKinds } from "../../src/adapters/operations/records.ts";
import { fnv1a, fnv1aStart } from "../../src/testing/fnv1a.ts";
import { JournaledRecords } from "../simulation/checks/journaled-records.ts";

export class HashedRecords extends JournaledRecords {
  /** Sums over all records, by two hashes: they do not depend on the order in which the records were written. */
  #sums: readonly [number, number] = [0, 0];

  override put<Kind extends RecordKind>(
    kind: Kind,
    scope: string,
    member: string,
    value: RecordKinds[Kind],
  ): void {
    this.#add(-1, kind, scope, member);
    super.put(kind, scope, member, value);
    this.#add(1, kind, scope, member);
  }

  override erase(kind: RecordKind, scope: string, member: string): void {
    this.#add(-1, kind, scope, member);
    super.erase(kind, scope, member);
  }

  contentHash(): string {
    return this.#sums.join();
  }

  #add(sign: 1 | -1, kind: RecordKind, scope: string, member: string): void {
    const value = this.get(kind, scope, member);
    if (value === undefined) return;
    const text = `${kind}\n${scope}\n${member}\n${JSON.stringify(value)}`;
    const [one, other] = this.#sums;
    this.#sums = [
      (one + sign * fnv1a(fnv1aStart, text)) | 0,
      (other + sign * fnv1a(Math.imul(fnv1aStart, 31), text)) | 0,
    ];
  }
}
