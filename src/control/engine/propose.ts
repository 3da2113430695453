// Decides an entry before asking the store, from what this process remembers of the run: then one operation applies it.
import { apply } from "../../domain/engine/apply.ts";
import type { Applied } from "../../domain/engine/contract.ts";
import { isItemResult } from "../../domain/engine/keys.ts";
import type { InboxEntry, NewEntry } from "../../domain/inbox.ts";
import type { RunId } from "../../domain/run.ts";
import type { CompiledDefinition } from "../../domain/workflow/compiled.ts";
import type { Proposal } from "../../ports/run-operations.ts";
import type { Preclaim } from "../jobs/offers.ts";
import type { Engine } from "./engine.ts";
import type { CachedRun } from "./run-cache.ts";

type Proposed = {
  readonly run: CachedRun;
  readonly proposal: Proposal;
  readonly preclaim: Preclaim;
  /** Its commit does not stand: nothing is remembered of the run, and no place is kept. */
  withdraw(): void;
};

/** Undefined when the run is not remembered, or its next commit is already on its way. */
export function propose(engine: Engine, runId: RunId, entry: NewEntry): Proposed | undefined {
  const run = engine.runs.get(runId);
  if (run === undefined || run.proposing) return undefined;
  const compiled = engine.definitions.remembered(run.tenant, run.definition);
  if (compiled === undefined) return undefined;
  if (entry.kind === "result") run.records.set(entry.payload.key, entry.payload.body);
  const decided = tryToApply(engine, compiled, run, entry);
  if (decided === undefined || decided.kind === "needs" || decided.consumed === 0) {
    // The payload is not stored yet: what is remembered must not claim that it is.
    engine.runs.forget(runId);
    return undefined;
  }
  // Nothing but the list of all outputs reads the result of an item again.
  if (entry.kind === "result" && isItemResult(entry.payload.key)) run.records.delete(entry.payload.key);
  run.proposing = true;
  const preclaim = engine.offers.preclaim(run, decided.change);
  const commitId = engine.ports.random.token();
  const proposal = {
    expectedVersion: run.version,
    expectedCommitId: run.commitId,
    commitId,
    change: preclaim.change,
  };
  const withdraw = () => {
    preclaim.abandon();
    engine.runs.forget(runId);
  };
  return { run, proposal, preclaim, withdraw };
}

/** An entry that makes the engine throw is delivered plainly: the owner sets it aside. */
function tryToApply(
  engine: Engine,
  compiled: CompiledDefinition,
  run: CachedRun,
  entry: NewEntry,
): Applied | undefined {
  try {
    const limits = engine.terms.commit;
    const nowMs = engine.storeTime.nowMs();
    return engine.computing.time("commit", run.tenant, () =>
      apply(compiled, run, [waitingForm(entry)], nowMs, limits),
    );
  } catch (error) {
    const cause = error instanceof Error ? error.message : String(error);
    engine.ports.log.warn("an entry could not be decided in advance", { run: run.runId, cause });
    return undefined;
  }
}

/** The entry as it would stand in the inbox. */
function waitingForm(entry: NewEntry): InboxEntry {
  switch (entry.kind) {
    case "result": {
      const { kind, entryId, jobId, outcome, payload } = entry;
      return { kind, entryId, jobId, outcome, payloadKey: payload.key };
    }
    case "decision": {
      const { kind, entryId, approvalId, decision, decidedBy, reason = "" } = entry;
      return { kind, entryId, approvalId, decision, decidedBy, reason };
    }
    case "retry": {
      const { kind, entryId, jobId, actor } = entry;
      return { kind, entryId, jobId, actor };
    }
    case "dispatch": {
      const { kind, entryId, jobId, verdict, reason } = entry;
      return { kind, entryId, jobId, verdict, reason };
    }
    case "cancel":
    case "timer":
      return entry;
  }
}
