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
  readonly #changes = new Map<string, Change>();

  override put<Kind extends RecordKind>(
    kind: Kind,
    scope: string,
    member: string,
    value: RecordKinds[Kind],
  ): void {
    this.#note({ kind, scope, member, before: this.get(kind, scope, member), after: value } as Change);
    super.put(kind, scope, member, value);
  }

  override erase(kind: RecordKind, scope: string, member: string): void {
    const before = this.get(kind, scope, member);
    if (before !== undefined) this.#note({ kind, scope, member, before, after: undefined } as Change);
    super.erase(kind, scope, member);
  }

  /** Everything changed since it was last asked, each record once: what it was before, and what it is now. */
  takeChanges(): readonly Change[] {
    const changes = this.changes();
    this.#changes.clear();
    return changes;
  }

  /** The same, which stays to be taken. */
  changes(): readonly Change[] {
    return [...this.#changes.values()].filter(
      ({ before, after }) => before !== undefined || after !== undefined,
    );
  }

  #note(change: Change): void {
    const key = `${change.kind} ${change.scope} ${change.member}`;
    const earlier = this.#changes.get(key);
    this.#changes.set(
      key,
      earlier === undefined ? change : ({ ...change, before: earlier.before } as Change),
    );
  }
}
