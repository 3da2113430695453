// Records that remember what each operation changed, so that the checks judge effects and not what the operation says.
import { MemoryRecords } from "../../../src/adapters/memory-store.ts";
import type { RecordKind, RecordKinds } from "../../../src/adapters/operations/records.ts";

export type Change = {
  [Kind in RecordKind]: {
    readonly kind: Kind;
    readonly scope: string;
    readonly member: string;
    readonly before: RecordKinds[Kind] | undefined;
    readonly after: RecordKinds[Kind] | undefined;
  };
}[RecordKind];

export type ChangeOf<Kind extends RecordKind> = Extract<Change, { readonly kind: Kind }>;

export class JournaledRecords extends MemoryRecords {
  /** Those of one operation: to look through them needs no key made of each. */
  #changes: Change[] = [];

  override put<Kind extends RecordKind>(
    kind: Kind,
    scope: string,
    member: string,
    value: RecordKinds[Kind],
  ): void {
    this.#note(kind, scope, member, this.replace(kind, scope, member, value), value);
  }

  override erase(kind: RecordKind, scope: string, member: string): void {
    const before = this.get(kind, scope, member);
    if (before === undefined) return;
    this.#note(kind, scope, member, before, undefined);
    super.erase(kind, scope, member);
  }

  /** Everything changed since it was last asked, each record once: what it was before, and what it is now. */
  takeChanges(): readonly Change[] {
    const changes = this.changes();
    this.#changes = [];
    return changes;
  }

  /** The same, which stays to be taken. */
  changes(): readonly Change[] {
    return this.#changes.filter(({ before, after }) => before !== undefined || after !== undefined);
  }

  #note(kind: RecordKind, scope: string, member: string, before: unknown, after: unknown): void {
    const changes = this.#changes;
    for (let index = 0; index < changes.length; index += 1) {
      const earlier = changes[index] as Change;
      if (earlier.kind === kind && earlier.member === member && earlier.scope === scope) {
        changes[index] = { kind, scope, member, before: earlier.before, after } as Change;
        return;
      }
    }
    changes.push({ kind, scope, member, before, after } as Change);
  }
}
