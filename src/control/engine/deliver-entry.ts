// Delivers an entry to a run: decided in advance and applied at once, appended for the run's owner, or drained here; and cancels runs.
import type { Approval } from "../../domain/approval.ts";
import { type Applied, apply, type RunView, type WrittenState } from "../../domain/engine/apply.ts";
import { recordsOf } from "../../domain/engine/foresee.ts";
import { isItemResult } from "../../domain/engine/keys.ts";
import type { InboxEntry, NewEntry } from "../../domain/inbox.ts";
import type { LockToken } from "../../domain/lock.ts";
import {
  type InTheMaking,
  isTerminal,
  type RunId,
  type RunRecord,
  type RunStatus,
  type TerminalStatus,
} from "../../domain/run.ts";
import type { TenantId } from "../../domain/tenant.ts";
import type { CompiledDefinition } from "../../domain/workflow/compiled.ts";
import type { DeliveryRefused, Proposal } from "../../ports/run-operations.ts";
import type { Answer, RequestOf } from "../../ports/store.ts";
import { ask } from "../ask-until-known.ts";
import { type Caller, credentialIn, type Trouble, troubleOf, type WriteTrouble } from "../caller.ts";
import type { Preclaim } from "../jobs/offers.ts";
import { instantOf } from "../locks/lease-terms.ts";
import { afterCommit, type CachedRun, countFate, remember } from "./after-commit.ts";
import { drainOwned, wakeRelatives } from "./drain-run.ts";
import type { Engine } from "./engine.ts";

export type DeliveryRequest<Kind extends NewEntry["kind"] = NewEntry["kind"]> = {
  readonly tenant: TenantId;
  readonly runId: RunId;
  readonly entry: Extract<NewEntry, { readonly kind: Kind }>;
  readonly credential?: string;
};

/** What became of an entry. Refusals are the store's, as they are. */
export type Delivery<Kind extends NewEntry["kind"] = NewEntry["kind"]> =
  /** Durable: it was applied, or its owner applies it. With a decision comes the approval. */
  { readonly kind: "accepted"; readonly approval?: Approval } | DeliveryRefused<Kind> | Trouble;

/** Strategy `handoff`: when the run is busy, the entry is appended to its inbox and the run's owner applies it. */
export async function deliverEntry<Kind extends NewEntry["kind"]>(
  engine: Engine,
  request: DeliveryRequest<Kind>,
): Promise<Delivery<Kind>> {
  const { ports } = engine;
  const { tenant, runId, entry } = request;
  const proposed = propose(engine, runId, entry);
  const terms = engine.terms.locks.handoff;
  const token = ports.random.token() as LockToken;
  const since = instantOf(ports.clock);
  const take = { token, instance: ports.instance, ttlMs: terms.ttlMs };
  try {
    const records = proposed === undefined ? recordsOf(entry) : [];
    const asked: InTheMaking<RequestOf<"deliver">> = {
      tenant,
      runId,
      entry,
      take,
      whenBusy: "append",
      records,
    };
    if (request.credential !== undefined) asked.credential = request.credential;
    if (proposed !== undefined) asked.proposal = proposed.proposal;
    const answer = await ask(engine, "deliver", asked);
    if (answer.kind === "applied" && proposed !== undefined) {
      const { change, commitId } = proposed.proposal;
      const { claims, storeTimeMs, version } = answer;
      countFate(ports.metrics, entry, "applied");
      rememberPayload(proposed.run, entry);
      remember(engine, proposed.run, { change, written: proposed.written }, { version, commitId });
      afterCommit(engine, { tenant, runId, change, claims, storeTimeMs, preclaim: proposed.preclaim });
      wakeRelatives(engine, proposed.run, change);
    } else proposed?.withdraw();
    if (answer.kind === "applied" && proposed === undefined) noteEndOfQueued(engine, entry, answer.status);
    if (answer.kind === "delivered" && answer.run.kind === "owned") {
      const { run } = answer;
      const grant = { kind: "acquired", token, fence: run.fence, since } as const;
      engine.background.run("draining a run", () => drainOwned(engine, { tenant, runId, terms, grant }, run));
    }
    return deliveryOf(engine, entry, answer);
  } catch (error) {
    proposed?.withdraw();
    throw error;
  }
}

/** A run that waited at a gate was cancelled: it had not begun, so that the store has ended it itself. */
function noteEndOfQueued({ ports: { metrics } }: Engine, entry: NewEntry, status: RunStatus): void {
  countFate(metrics, entry, "applied");
  if (isTerminal(status)) metrics.count("runs_ended_total", { status });
}

/** Refusals are final: acknowledged once, counted by what was refused and why. */
export function deliveryOf<Kind extends NewEntry["kind"]>(
  engine: Engine,
  entry: Extract<NewEntry, { readonly kind: Kind }>,
  answer: Answer<"deliver">,
): Delivery<Kind> {
  const { metrics } = engine.ports;
  if (answer.kind === "applied" || answer.kind === "delivered") {
    const isHandedOver = answer.kind === "delivered" && answer.run.kind === "handed_over";
    if (isHandedOver) metrics.count("inbox_handoffs_total", {});
    const { approval } = answer;
    return approval === undefined ? { kind: "accepted" } : { kind: "accepted", approval };
  }
  if (answer.kind === "run_busy")
    return { kind: "unavailable", cause: `run lock busy: held by ${answer.instance}` };
  if (answer.kind === "unavailable" || answer.kind === "unknown") return troubleOf(answer);
  const { storeTimeMs: _storeTimeMs, ...refused } = answer;
  metrics.count("inbox_entries_total", {
    kind: entry.kind,
    fate: refusedFates[refused.kind] ?? refused.kind,
  });
  // The store refuses an entry for reasons of its kind alone.
  return refused as DeliveryRefused<Kind>;
}

/** Where the metric's label is older than the error code. */
const refusedFates: { readonly [Kind in DeliveryRefused["kind"]]?: string } = {
  approval_already_decided: "approval_decided",
  dead_letter_not_found: "letter_not_found",
  dead_letter_not_retryable: "not_retryable",
  max_concurrent_runs_reached: "limit_reached",
  unauthenticated: "credential_revoked",
};

/** An entry decided before the store is asked, from what this process remembers of the run: one operation then applies it. */
type Proposed = {
  readonly run: CachedRun;
  readonly proposal: Proposal;
  readonly written: WrittenState | undefined;
  readonly preclaim: Preclaim;
  /** Its commit does not stand: nothing is remembered of the run, and no place is kept. */
  withdraw(): void;
};

/** Undefined when the run is not remembered, or its next commit is already on its way. */
function propose(engine: Engine, runId: RunId, entry: NewEntry): Proposed | undefined {
  const run = engine.runs.get(runId);
  if (run === undefined || run.proposing) return undefined;
  const compiled = engine.definitions.remembered(run.tenant, run.definition);
  if (compiled === undefined) return undefined;
  const view = entry.kind === "result" ? withPayload(run, entry.payload) : run;
  const decided = tryToApply(engine, compiled, view, entry);
  if (decided === undefined || decided.kind === "needs" || decided.consumed === 0) {
    // The owner loads what is missing, and remembers that.
    engine.runs.forget(runId);
    return undefined;
  }
  run.proposing = true;
  const preclaim = engine.offers.preclaim(view, decided.change);
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
  return { run, proposal, written: decided.written, preclaim, withdraw };
}

/** The store may refuse the payload, and the run's owner in this process may have what is remembered in its hands. */
function withPayload(run: CachedRun, { key, body }: RunRecord): RunView {
  const { records } = run;
  return {
    ...run,
    records: {
      has: (name) => name === key || records.has(name),
      get: (name) => (name === key ? body : records.get(name)),
    },
  };
}

/** Once it is stored. Nothing but the list of all outputs reads the result of an item again. */
function rememberPayload({ records }: CachedRun, entry: NewEntry): void {
  if (entry.kind === "result" && !isItemResult(entry.payload.key))
    records.set(entry.payload.key, entry.payload.body);
}

/** An entry that makes the engine throw is delivered plainly: the owner sets it aside. */
function tryToApply(
  engine: Engine,
  compiled: CompiledDefinition,
  run: RunView,
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

export type CancelAnswer =
  | { readonly kind: "cancelling" }
  | { readonly kind: "run_ended"; readonly runStatus: TerminalStatus }
  | { readonly kind: "run_not_found" }
  | WriteTrouble;

type NamedRun = { readonly caller: Caller; readonly runId: RunId };

export async function cancelRun(
  engine: Engine,
  { caller, runId, reason }: NamedRun & { readonly reason: string },
): Promise<CancelAnswer> {
  const { tenant, actor, credential } = caller;
  const entry = { kind: "cancel", entryId: `cancel:${engine.ports.random.token()}`, actor, reason } as const;
  const request = { tenant, runId, entry, ...(credential === undefined ? {} : { credential }) };
  const answer = await deliverEntry(engine, request);
  if (answer.kind === "accepted" || answer.kind === "already_cancelling") return { kind: "cancelling" };
  if (answer.kind !== "run_ended") return answer;
  const run = await ask(engine, "loadRun", { tenant, runId, records: [] });
  if (run.kind === "not_found") return { kind: "run_not_found" };
  if (run.kind !== "run") return { kind: run.kind, cause: run.cause };
  return isTerminal(run.header.status)
    ? { kind: "run_ended", runStatus: run.header.status }
    : { kind: "unavailable", cause: "the run changed meanwhile" };
}

/** How long a delete waits for the end of a run that it had to cancel first. */
const endWaitMs = 3_000;

/** Cancels first if needed and waits a few seconds for the end; `run_not_ended` when that was not enough. */
export async function deleteRun(
  engine: Engine,
  { caller, runId }: NamedRun,
): Promise<
  | { readonly kind: "deleted" }
  | { readonly kind: "run_not_found" }
  | { readonly kind: "run_not_ended" }
  | WriteTrouble
> {
  const { clock } = engine.ports;
  const endMs = clock.monotonicMs() + endWaitMs;
  for (let cancelled = false; ; ) {
    const answer = await removePart(engine, caller, runId);
    if (answer.kind === "deleted") return { kind: "deleted" };
    if (answer.kind === "not_found") return { kind: "run_not_found" };
    if (answer.kind === "unauthenticated") return { kind: "unauthenticated" };
    if (answer.kind === "unknown" || answer.kind === "unavailable") {
      return { kind: answer.kind, cause: answer.cause };
    }
    if (answer.kind === "more") continue;
    if (clock.monotonicMs() > endMs) return { kind: "run_not_ended" };
    if (!cancelled) {
      const cancel = await cancelRun(engine, { caller, runId, reason: "deleted" });
      if (cancel.kind !== "cancelling" && cancel.kind !== "run_ended" && cancel.kind !== "run_not_found")
        return cancel;
      cancelled = true;
    }
    await clock.sleep(20);
  }
}

function removePart(engine: Engine, caller: Caller, runId: RunId) {
  const { tenant, actor } = caller;
  const request = { tenant, runId, actor, ...credentialIn(tenant, caller) };
  return ask(engine, "deleteRun", request);
}
