// Acknowledged facts: they must still hold after the store has lost something, where that was promised (INV-18).
import type { RunId } from "../../../src/domain/run.ts";
import type { DurabilityLevel } from "../faults/loss-faults.ts";
import type { InvariantName } from "../invariants/invariants.ts";
import type { Marks } from "../invariants/marks.ts";
import { mustHold } from "../invariants/violation.ts";
import type { DurableEntry } from "./durable-stream.ts";
import { runOfScope } from "./run-checks.ts";

/** One acknowledged fact, and how to check that it still holds. */
type Fact = {
  readonly invariant: InvariantName;
  readonly what: string;
  readonly holds: () => boolean;
};

export class Acknowledged {
  readonly #level: DurabilityLevel | undefined;
  readonly #marks: Marks;
  readonly #lostOf = new Set<RunId>();
  /** Whether what happened is judged once more: then what callers were told since says nothing about it. */
  readonly isReplaying: () => boolean;
  #facts: Fact[] = [];

  /** Without a level nothing is ever lost, and nothing needs to be remembered. */
  constructor(level: DurabilityLevel | undefined, marks: Marks, isReplaying: () => boolean) {
    this.#level = level;
    this.#marks = marks;
    this.isReplaying = isReplaying;
  }

  record(fact: Fact): void {
    if (this.#level !== undefined) this.#facts.push(fact);
  }

  /** Whether what somebody was told of this run may be wrong: acknowledged changes of it were lost where no more is promised. */
  excuses(runId: string | undefined): boolean {
    return runId !== undefined && this.#level === "process" && this.#lostOf.has(runId as RunId);
  }

  /** The same for what somebody was told after a mere read, which waits for nothing below `synced`. */
  excusesReading(runId: RunId): boolean {
    return this.#level !== "synced" && this.#lostOf.has(runId);
  }

  /** To be called when the checks stand on what is left. */
  afterLoss(lost: readonly DurableEntry[]): void {
    for (const { changes } of lost) {
      for (const { kind, scope, member } of changes) {
        if (kind === "run") this.#lostOf.add(member as RunId);
        else if (kind === "runRecord" || kind === "inbox" || kind === "job")
          this.#lostOf.add(runOfScope(scope));
        else if (kind === "approval") this.#lostOf.add(member.slice(0, member.indexOf(":")) as RunId);
      }
    }
    this.#facts = this.#facts.filter((fact) => this.#isKept(fact));
  }

  #isKept({ invariant, what, holds }: Fact): boolean {
    if (holds()) return true;
    mustHold(this.#level === "process", invariant, () => `${what}, and the store has lost it`);
    this.#marks.hit("acknowledged_lost_at_process");
    return false;
  }
}
