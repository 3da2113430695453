// Where records are, in memory and in a file: what a comparison of everything walks along.
import type { RecordKind, RecordKinds } from "../../src/adapters/operations/records.ts";
import type { Database } from "../../src/adapters/sqlite/driver.ts";
import { bundledKinds } from "../../src/adapters/sqlite/run-bundles.ts";
import { tableOf } from "../../src/adapters/sqlite/schema.ts";
import { decodeKey } from "../../src/adapters/sqlite/text-key.ts";
import { JournaledRecords } from "./checks/journaled-records.ts";

export type ScopedRecords = Pick<JournaledRecords, "scan"> & { scopes(kind: RecordKind): readonly string[] };

/** Records that tell of what is written past all operations. */
export class WatchedRecords extends JournaledRecords {
  /** True while the store performs an operation. */
  performing = false;
  onAdopt:
    | (<Kind extends RecordKind>(kind: Kind, scope: string, member: string, value: RecordKinds[Kind]) => void)
    | undefined;

  override put<Kind extends RecordKind>(
    kind: Kind,
    scope: string,
    member: string,
    value: RecordKinds[Kind],
  ): void {
    super.put(kind, scope, member, value);
    if (!this.performing) this.onAdopt?.(kind, scope, member, value);
  }

  scopes(kind: RecordKind): readonly string[] {
    return [...new Set([...this.all(kind)].map(({ scope }) => scope))];
  }
}

/** Every scope of the kind in the file. */
export function scopesOf(database: Database, kind: RecordKind): readonly string[] {
  const tables = [tableOf(kind), ...(bundledKinds.has(kind) ? ["run_bundle"] : [])];
  return tables.flatMap((table) =>
    database
      .prepare(`SELECT DISTINCT scope FROM ${table}`)
      .all()
      .map((row) => decodeKey((row as { readonly scope: string }).scope)),
  );
}
