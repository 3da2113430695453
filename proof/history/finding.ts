// What a check has found: which invariant is broken, in a sentence, and the records that it rests on.
import type { History } from "./history.ts";
import type { HistoryRecord } from "./record.ts";

const checkedInvariants = [
  "INV-1",
  "INV-2",
  "INV-3",
  "INV-6",
  "INV-8",
  "INV-9",
  "INV-11",
  "INV-12",
  "INV-13",
  "INV-17",
  "INV-18",
  "INV-19",
  "INV-21",
  "INV-22",
  "INV-23",
  "INV-25",
  "INV-26",
  "INV-31",
  "INV-37",
] as const;
type CheckedInvariant = (typeof checkedInvariants)[number];

/** `excused`: the store does not promise it across a failover at durability `process`. */
export type Standing = "promised" | "excused";

export type Finding = {
  readonly invariant: CheckedInvariant;
  readonly standing: Standing;
  readonly sentence: string;
  readonly records: readonly HistoryRecord[];
};

/** Something whose order could not be decided within the budget: neither good nor bad. */
export type Undecided = {
  readonly invariant: CheckedInvariant;
  readonly sentence: string;
};

export type Checked = {
  readonly findings: readonly Finding[];
  readonly undecided: readonly Undecided[];
};

type Span = { readonly fromUs: number; readonly toUs: number };

/**
 * Of a finding that rests on what happened between two moments. A failover takes back what was acknowledged before its end; what
 * was acknowledged after it, it cannot.
 */
export function standingOf({ setting, faults }: History, { fromUs, toUs }: Span): Standing {
  if (setting.durability === "replicated") return "promised";
  const isTouched = faults.some(
    ({ name, beginUs, endUs }) => name.startsWith("failover") && beginUs <= toUs && endUs >= fromUs,
  );
  return isTouched ? "excused" : "promised";
}
