// How a run is expected to end: every step with the statuses it may have, and its output where that is certain.
import type { JsonValue } from "../../src/domain/fingerprint.ts";

export type FailedStatus = "failed" | "denied" | "timed_out";

/** How a step has ended, or why it never will. `stuck` waits for an answer that never comes. */
export type Ended =
  | { readonly kind: "met"; readonly output?: JsonValue; readonly isUnknown?: true }
  | { readonly kind: "broken"; readonly statuses: readonly FailedStatus[] }
  | { readonly kind: "condition" | "dependency" | "branch" | "unbegun" | "stuck" };

export type StepPicture = {
  readonly allowed: readonly string[];
  /** Only where it is certain. */
  readonly output?: { readonly value: JsonValue | undefined };
};

export type RunPicture = {
  readonly workflow: string;
  readonly allowed: readonly string[];
  readonly steps: ReadonlyMap<string, StepPicture>;
  /** What the run gives to its caller. */
  readonly output: JsonValue;
  readonly isOutputUnknown: boolean;
  readonly ended: ReadonlyMap<string, Ended>;
  /** By switch: the step that began. */
  readonly chosen: ReadonlyMap<string, string>;
  /** False when it depends on the order of things whether the run comes to this end, or is there at all. */
  readonly isCertain: boolean;
};

const severity: Readonly<Record<FailedStatus, number>> = { timed_out: 1, denied: 2, failed: 3 };

function worstOf(statuses: readonly FailedStatus[]): FailedStatus {
  return statuses.reduce((worst, status) => (severity[status] > severity[worst] ? status : worst));
}

/** What the worst of several failures may be, by what each of them may have been. */
export function worstStatuses(failures: ReadonlyArray<readonly FailedStatus[]>): readonly FailedStatus[] {
  let worst = new Set<FailedStatus>();
  for (const statuses of failures) {
    const before = [...worst];
    worst = new Set(
      statuses.flatMap((status) =>
        before.length === 0 ? [status] : before.map((other) => worstOf([status, other])),
      ),
    );
  }
  return [...worst];
}

export function isMet({ kind }: Ended): boolean {
  return kind === "met" || kind === "condition";
}

/** Whether it depends on the order of things what it has given, or how it has failed. */
export function isUnknown(ended: Ended): boolean {
  return ended.kind === "met"
    ? ended.isUnknown === true
    : ended.kind === "broken" && ended.statuses.length > 1;
}

/** As an expression sees it. */
export function statusSeen(ended: Ended): string {
  switch (ended.kind) {
    case "met":
      return "succeeded";
    case "broken":
      return ended.statuses[0] ?? "failed";
    case "stuck":
      return "cancelled";
    case "unbegun":
      return "pending";
    case "branch":
    case "condition":
    case "dependency":
      return "skipped";
  }
}

/** As a reader sees it when the run has ended. A run that is called off cancels what never began. */
export function statusesShown(ended: Ended, isCalledOff: boolean, isIffy: boolean): readonly string[] {
  const certain = ended.kind === "broken" ? ended.statuses : [shown(ended, isCalledOff)];
  return isIffy ? [...certain, "cancelled", isCalledOff ? "cancelled" : "skipped"] : certain;
}

function shown(ended: Ended, isCalledOff: boolean): string {
  if (ended.kind === "unbegun") return isCalledOff ? "cancelled" : "skipped";
  return statusSeen(ended);
}
