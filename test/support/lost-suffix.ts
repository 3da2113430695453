// A failover that loses the last changes: what the simulated store held before is put back.
import type { MemoryRecords } from "../../src/adapters/memory-store.ts";
import { type RecordKind, recordKinds } from "../../src/adapters/operations/records.ts";

type Row = { readonly kind: RecordKind; readonly scope: string; readonly member: string; value: never };

/** Gives what makes the records be again as they are now. */
export function keepRecords(records: MemoryRecords): () => void {
  const kept = allOf(records);
  return () => {
    for (const { kind, scope, member } of allOf(records)) records.erase(kind, scope, member);
    for (const { kind, scope, member, value } of kept) records.put(kind, scope, member, value);
  };
}

function allOf(records: MemoryRecords): readonly Row[] {
  return recordKinds.flatMap((kind) => [...records.all(kind)].map((row) => ({ kind, ...row }) as Row));
}
