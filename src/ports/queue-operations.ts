// The store operations on gates and the runs that wait at them, and on what budgets have spent.
import type { BudgetId, Ledger, LedgerId } from "../domain/budgets.ts";
import type { GateId } from "../domain/gates.ts";
import type { RunHeader, RunId } from "../domain/run.ts";
import type { TenantId } from "../domain/tenant.ts";
import type { Unauthenticated, Woken } from "./admission-operations.ts";

/** What holds of a gate now. */
export type GateState = {
  readonly gate: GateId;
  /** Absent when it lets everybody through. */
  readonly limit?: number;
  /** Runs that hold a place. */
  readonly active: number;
  readonly waiting: number;
};

/** What holds of a budget in one of its periods. */
export type LedgerState = Ledger & {
  readonly ledger: LedgerId;
  readonly budget: BudgetId;
  readonly periodStartMs: number;
  /** Absent when the budget is not set any more: it stops nobody. */
  readonly amount?: number;
  /** Jobs that it holds now, in whichever period they came. */
  readonly parked: number;
};

export type QueueOperations = {
  /**
   * Hands on what is free at a gate, at most `movesMax` runs. `more`: call again. Every operation that frees a place does so by
   * itself; this is for gates whose limit has changed, and for what one operation left. A tenant that is stopped gets nothing.
   */
  handOn: {
    request: { readonly tenant: TenantId; readonly gate: GateId };
    outcome: { readonly kind: "handed_on"; readonly woken: readonly RunId[]; readonly more: boolean };
  };
  /** The gates at which runs wait, by their ids. */
  listGates: {
    request: { readonly tenant: TenantId; readonly after: string; readonly limit: number };
    outcome: { readonly kind: "listed"; readonly gates: readonly GateState[]; readonly queued: number };
  };
  /** A gate with those that hold its places, oldest first, and those that wait, in the order in which they would be granted now. */
  inspectGate: {
    request: { readonly tenant: TenantId; readonly gate: GateId; readonly limit: number };
    outcome: {
      readonly kind: "gate";
      readonly state: GateState;
      readonly holders: readonly RunHeader[];
      readonly queue: readonly RunHeader[];
    };
  };
  /** The ledgers that are kept, by their ids. */
  listLedgers: {
    request: { readonly tenant: TenantId; readonly after: string; readonly limit: number };
    outcome: { readonly kind: "listed"; readonly ledgers: readonly LedgerState[] };
  };
  /**
   * Puts a run that waits at another place of its queue: before all others, or behind those of a priority. `moveId` makes a repeat
   * recognisable until the run's next move, also when it waits no more: the answer is `moved` again, and nothing happens.
   */
  moveQueued: {
    request: {
      readonly tenant: TenantId;
      readonly runId: RunId;
      readonly to: "head" | number;
      readonly moveId: string;
      readonly actor: string;
      readonly credential?: string;
    };
    outcome:
      | ({ readonly kind: "moved"; readonly gate: GateId } & Woken)
      | { readonly kind: "run_not_queued" }
      | { readonly kind: "run_not_found" }
      | Unauthenticated;
  };
};

/** Moves of one operation: what a run's end can free, and room for what that frees again. */
export const movesMax = 8;
