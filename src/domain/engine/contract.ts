// What the engine decides, as values: the changes of one commit, or the records it must see first.

import type { JsonValue } from "../fingerprint.ts";
import type { InboxEntry } from "../inbox.ts";
import type { Person } from "../person.ts";
import type { ParentStep, RunId } from "../run.ts";
import type { RunChange } from "../run-change.ts";
import type { TenantId } from "../tenant.ts";

/** A run as its owner knows it. A record mapped to undefined is known to be absent; a missing one was not loaded. */
export type RunView = {
  readonly runId: RunId;
  readonly tenant: TenantId;
  readonly actor: string;
  readonly version: number;
  /** For a child run: the step that waits for it. */
  readonly parent?: ParentStep;
  readonly records: ReadonlyMap<string, string | undefined>;
};

export type NewRunFacts = {
  readonly runId: RunId;
  readonly tenant: TenantId;
  readonly actor: string;
  readonly person?: Person;
  readonly input: JsonValue;
  readonly nowMs: number;
  /** The tenant's setting: the person who started the run may not approve its steps. */
  readonly separateDuties: boolean;
  /** Passed on to workers (W3C trace context). */
  readonly traceparent?: string;
  /** For a rerun: the run whose finished steps are taken over, and the step that begins again. */
  readonly rerun?: { readonly of: RunId; readonly fromStep: string };
};

/** How an entry ended: `late` came after its step or attempt was over and changes nothing. */
export type EntryFate = { readonly entry: InboxEntry; readonly fate: "applied" | "late" };

export type Applied =
  | {
      readonly kind: "applied";
      readonly change: RunChange;
      /** Entries used, from the first: fewer than given when the change would have become too large. */
      readonly consumed: number;
      readonly fates: readonly EntryFate[];
      /** The run's. */
      readonly traceparent?: string;
      /** What was evaluated and checked for it, in units of about 50 ns. */
      readonly work: number;
    }
  /** Load these records (absent ones count as seen) and apply again. */
  | { readonly kind: "needs"; readonly records: readonly string[]; readonly work: number };
