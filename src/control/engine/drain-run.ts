// The owner of a run applies what waits in its inbox, commit by commit, until nothing does.
import { poisonedBody } from "../../domain/dead-letter.ts";
import { type Applied, apply } from "../../domain/engine/apply.ts";
import { reopenedChild } from "../../domain/engine/apply-entry.ts";
import { payloadsPerRound } from "../../domain/engine/draft.ts";
import { recordsFor } from "../../domain/engine/foresee.ts";
import { isSmall, type OutsideKey, parseOutsideKey, treeFullKey } from "../../domain/engine/keys.ts";
import type { InboxEntry } from "../../domain/inbox.ts";
import type { LockToken } from "../../domain/lock.ts";
import { isTerminal, type RunChange, type RunHeader, type RunId, unchanged } from "../../domain/run.ts";
import type { TenantId } from "../../domain/tenant.ts";
import type { CompiledDefinition } from "../../domain/workflow/compiled.ts";
import type { Woken } from "../../ports/admission-operations.ts";
import type { Clock } from "../../ports/ports.ts";
import type { OwnedRun } from "../../ports/run-operations.ts";
import type { OperationName } from "../../ports/store.ts";
import { ask, askUntilKnown } from "../ask-until-known.ts";
import type { Acquisition } from "../locks/acquire-lease.ts";
import type { LeaseTerms } from "../locks/lease-terms.ts";
import { instantOf } from "../locks/lease-terms.ts";
import { holdLease, type Lease } from "../locks/with-lease.ts";
import type { WorkflowDocument } from "../workflows/definitions.ts";
import { afterCommit, type CachedRun, countFate, KnownRecords, remember } from "./after-commit.ts";
import type { Engine } from "./engine.ts";

type Ownership = {
  readonly tenant: TenantId;
  readonly runId: RunId;
  readonly terms: LeaseTerms;
  readonly grant: Acquisition;
};

/** Takes the run if something waits in it and nobody owns it. */
export async function drainRun(engine: Engine, tenant: TenantId, runId: RunId): Promise<void> {
  const { ports } = engine;
  const terms = engine.terms.locks.handoff;
  const token = ports.random.token() as LockToken;
  const since = instantOf(ports.clock);
  const take = { token, instance: ports.instance, ttlMs: terms.ttlMs };
  const answer = await ask(engine, "takeRun", { tenant, runId, take, records: [] });
  if (answer.kind !== "owned") return;
  const grant = { kind: "acquired", token, fence: answer.fence, since } as const;
  await drainOwned(engine, { tenant, runId, terms, grant }, answer);
}

/** Whatever freed places at gates: the runs that got one begin at once, and those that give way to a newer one are cancelled. */
export function wakeRuns(engine: Engine, tenant: TenantId, by: OperationName, { woken = [] }: Woken): void {
  engine.queueGauges.heard(tenant);
  // A start wakes those that it supersedes, too: what it lets through is counted where it is seen alone.
  for (const runId of woken) {
    if (by !== "admit") engine.ports.metrics.count("queue_grants_total", {});
    engine.background.run("draining a run that got a place", () => drainRun(engine, tenant, runId));
  }
}

/** Runs in whose inboxes a commit has put something: children that begin or are called off, and the parent of one that ended. */
export function wakeRelatives(engine: Engine, { tenant, parent }: Relative, change: RunChange): void {
  const wake = (runId: RunId) =>
    engine.background.run("draining a related run", () => drainRun(engine, tenant, runId));
  for (const { runId } of change.children) wake(runId);
  for (const runId of change.cancelChildren) wake(runId);
  if (parent !== undefined && isTerminal(change.status)) wake(parent.runId);
}

type Relative = Pick<CachedRun, "tenant" | "parent">;

/** Drains a run that is already ours. Losing it loses nothing: what was not committed still waits. */
export async function drainOwned(engine: Engine, ownership: Ownership, owned: OwnedRun): Promise<void> {
  const { tenant, runId, terms, grant } = ownership;
  const target = { tenant, lock: { namespace: "run", name: runId } } as const;
  await holdLease(engine.ports, target, terms, grant, async (lease) => {
    const pinned = await engine.definitions.pinned(tenant, owned.header.definition);
    const pause = pauses(engine.ports.clock);
    if (pinned.kind === "compiled")
      await commitAll(engine, { lease, compiled: pinned.definition, pause }, owned);
    else if (pinned.kind === "missing")
      await commitOne(engine, lease, viewOf(owned.header), lostDefinition(owned));
  });
}

/** A run without its definition can never go on: it fails visibly instead of waiting for ever. */
function lostDefinition({ entries }: OwnedRun): Decided {
  const timeline = JSON.stringify([
    { type: "run_completed", status: "failed", reason: "definition_missing" },
  ]);
  const fates = entries.map((entry) => ({ entry, fate: "late" }) as const);
  return {
    kind: "applied",
    change: { ...unchanged, status: "failed", timeline, cancelChildren: reopenedBy(entries) },
    consumed: entries.length,
    fates,
    work: 0,
  };
}

function reopenedBy(entries: readonly InboxEntry[]): readonly RunId[] {
  return entries.flatMap((entry) => reopenedChild(entry) ?? []);
}

type Work = {
  readonly lease: Lease;
  readonly compiled: CompiledDefinition;
  /** Lets others go first after so much evaluation: a store in this process answers before anybody else gets a turn. */
  pause(units: number): Promise<void> | undefined;
};

/** Two such slices are less than a health check waits for; ordinary commits take a hundredth of one. */
const sliceUnits = 200_000;

function pauses(clock: Clock): Work["pause"] {
  let spent = 0;
  return (units) => {
    spent += units;
    if (spent < sliceUnits) return undefined;
    spent = 0;
    return clock.yield();
  };
}

async function commitAll(engine: Engine, work: Work, owned: OwnedRun): Promise<void> {
  const { clock } = engine.ports;
  const run = viewOf(owned.header);
  for (const { key, body } of owned.records) run.records.set(key, body);
  let entries = owned.entries;
  let startedMs = clock.monotonicMs();
  for (let rounds = 1; entries.length > 0; rounds += 1) {
    const decided = await decideEntries(engine, work, run, entries);
    if (decided === undefined) return;
    const next = await commitOne(engine, work.lease, run, decided);
    if (next === undefined) return;
    const paused = work.pause(decided.work);
    if (paused !== undefined) await paused;
    // Decided again with what the store has just answered: the step that wanted another run fails.
    if (next === "tree_full") run.records.set(treeFullKey, "full");
    else {
      entries = next;
      forgetOutside(run);
    }
    if (rounds % engine.config["engine.drainRoundsMax"] === 0 || clock.monotonicMs() - startedMs > 1_000) {
      await clock.sleep(0);
      startedMs = clock.monotonicMs();
    }
  }
}

type Decided = Extract<Applied, { kind: "applied" }>;

/** Loads what the engine asks for until it decides; an entry that makes it throw is set aside at once. */
async function decideEntries(
  engine: Engine,
  { compiled, pause }: Work,
  run: CachedRun,
  entries: readonly InboxEntry[],
): Promise<Decided | undefined> {
  // A payload comes with its entry, between our commits: that it was missing an entry ago says nothing now.
  for (const entry of entries) {
    if (entry.kind === "result" && run.records.get(entry.payloadKey) === undefined) {
      run.records.delete(entry.payloadKey);
    }
  }
  if (!(await load(engine, run, recordsFor(compiled, entries)))) return undefined;
  for (;;) {
    const applied = applyOrSetAside(engine, compiled, run, entries);
    if (applied.kind === "applied") return applied;
    const paused = pause(applied.work);
    if (paused !== undefined) await paused;
    if (!(await load(engine, run, applied.records))) return undefined;
  }
}

function applyOrSetAside(
  engine: Engine,
  compiled: CompiledDefinition,
  run: CachedRun,
  entries: readonly InboxEntry[],
): Applied {
  const nowMs = engine.storeTime.nowMs();
  try {
    return engine.computing.time("commit", run.tenant, () =>
      apply(compiled, run, entries, nowMs, engine.terms.commit),
    );
  } catch (error) {
    const [head] = entries;
    if (head === undefined) throw error;
    if (entries.length > 1) return applyOrSetAside(engine, compiled, run, [head]);
    const cause = error instanceof Error ? (error.stack ?? error.message) : String(error);
    engine.ports.log.error("an inbox entry could not be applied", {
      run: run.runId,
      entry: head.entryId,
      cause,
    });
    return setAside(engine, compiled, run, head, nowMs);
  }
}

/** Dead letter first, then the step fails, in one commit. If even that cannot be applied, the run fails. */
function setAside(
  { terms }: Engine,
  compiled: CompiledDefinition,
  run: CachedRun,
  head: InboxEntry,
  nowMs: number,
): Applied {
  const was = head.kind === "poisoned" ? head.was : JSON.stringify(head);
  const body = poisonedBody(run.runId, was);
  const letter = { id: `${run.runId}:${head.entryId}`, reason: "poisoned_entry", body } as const;
  const fates = [{ entry: head, fate: "applied" }] as const;
  try {
    const entry = { kind: "poisoned", entryId: head.entryId, was } as const;
    const applied = apply(compiled, run, [entry], nowMs, terms.commit);
    if (applied.kind === "needs") return applied;
    return {
      ...applied,
      change: { ...applied.change, deadLetters: [letter, ...applied.change.deadLetters] },
    };
  } catch {
    const timeline = JSON.stringify([{ type: "run_completed", status: "failed", reason: "poisoned_entry" }]);
    const cancelChildren = reopenedBy([head]);
    const failed = { status: "failed", timeline, deadLetters: [letter], cancelChildren } as const;
    const change = { ...unchanged, ...failed };
    return { kind: "applied", change, consumed: 1, fates, work: 0 };
  }
}

/** False when the store did not answer: the run is left to the next owner. */
async function load(engine: Engine, run: CachedRun, keys: readonly string[]): Promise<boolean> {
  const absent = keys.filter((key) => !run.records.has(key));
  const outside = absent.filter((key) => parseOutsideKey(key) !== undefined);
  if (outside.length > 0 && !(await loadOutside(engine, run, outside))) return false;
  const missing = outside.length === 0 ? absent : absent.filter((key) => !outside.includes(key));
  const { tenant, runId } = run;
  for (const records of inTrips(missing)) {
    const answer = await ask(engine, "loadRun", { tenant, runId, records });
    if (answer.kind !== "run") return false;
    for (const key of records) run.records.set(key, undefined);
    for (const { key, body } of answer.records) run.records.set(key, body);
  }
  return true;
}

/** Mostly one. Payloads have up to 256 KiB each: hundreds of them in one answer would hold up the store and this process. */
function inTrips(keys: readonly string[]): ReadonlyArray<readonly string[]> {
  if (keys.length <= payloadsPerRound) return keys.length === 0 ? [] : [keys];
  const payloads = keys.filter((key) => !isSmall(key));
  const trips = [[...keys.filter(isSmall), ...payloads.slice(0, payloadsPerRound)]];
  for (let from = payloadsPerRound; from < payloads.length; from += payloadsPerRound)
    trips.push(payloads.slice(from, from + payloadsPerRound));
  return trips;
}

/** What waits now, or undefined when the run is no longer ours. */
async function commitOne(
  engine: Engine,
  lease: Lease,
  run: CachedRun,
  decided: Decided,
): Promise<readonly InboxEntry[] | "tree_full" | undefined> {
  const { ports } = engine;
  const { tenant, runId } = run;
  const span = ports.tracer.startSpan("apply", "internal", decided.traceparent);
  const preclaim = engine.offers.preclaim(run, decided.change);
  const { change } = preclaim;
  const request = {
    tenant,
    runId,
    commitId: ports.random.token(),
    expectedVersion: run.version,
    consumed: decided.consumed,
    change,
  };
  try {
    const answer = await askUntilKnown(ports, "commit", engine.terms.store, (deadlineMs) =>
      lease.write("commit", request, deadlineMs),
    );
    span?.note({ tenant, run: runId, count: decided.consumed, outcome: answer.kind });
    span?.end(answer.kind === "unavailable" || answer.kind === "unknown" ? "failed" : undefined);
    if (answer.kind !== "committed") {
      engine.runs.forget(runId);
      return answer.kind === "tree_full" ? "tree_full" : undefined;
    }
    const { version, claims, storeTimeMs } = answer;
    for (const { entry, fate } of decided.fates) countFate(ports.metrics, entry, fate);
    ports.metrics.observe("inbox_drain_entries", {}, decided.consumed);
    remember(engine, run, { change, written: decided.written }, { version, commitId: request.commitId });
    afterCommit(engine, { tenant, runId, change, claims, storeTimeMs, preclaim });
    wakeRelatives(engine, run, change);
    return answer.entries;
  } finally {
    preclaim.abandon();
  }
}

function viewOf({ tenant, runId, actor, definition, version, status, parent }: RunHeader): CachedRun {
  const records = new KnownRecords();
  // Nothing is proposed before its first commit here.
  const run = { tenant, runId, actor, definition, version, commitId: "", status, records, proposing: false };
  return parent === undefined ? run : { ...run, parent };
}

/** False when the store did not answer. What is not there counts as seen. */
async function loadOutside(engine: Engine, run: CachedRun, keys: readonly string[]): Promise<boolean> {
  const wanted = keys.flatMap((key) => {
    const outside = parseOutsideKey(key);
    return outside === undefined ? [] : [{ key, outside }];
  });
  for (const { key } of wanted) run.records.set(key, undefined);
  const answers = await Promise.all([
    ...wanted.map(({ key, outside }) => loadWorkflow(engine, run, key, outside)),
    ...[...byRun(wanted.filter(isForeign))].map(([runId, records]) =>
      loadForeign(engine, run, runId, records),
    ),
  ]);
  if (answers.every((isKnown) => isKnown)) return true;
  for (const { key } of wanted) run.records.delete(key);
  return false;
}

/** The world outside moves on: what was read for one commit is not taken for the next. */
function forgetOutside({ records }: CachedRun): void {
  for (const key of records.keys()) if (parseOutsideKey(key) !== undefined) records.delete(key);
}

type Wanted = { readonly key: string; readonly outside: OutsideKey };
type Foreign = { readonly key: string; readonly outside: Extract<OutsideKey, { kind: "run" }> };

function byRun(wanted: readonly Foreign[]): ReadonlyMap<RunId, readonly Foreign[]> {
  const groups = new Map<RunId, Foreign[]>();
  for (const one of wanted) {
    const group = groups.get(one.outside.runId) ?? [];
    group.push(one);
    groups.set(one.outside.runId, group);
  }
  return groups;
}

function isForeign(wanted: Wanted): wanted is Foreign {
  return wanted.outside.kind === "run";
}

async function loadWorkflow(
  engine: Engine,
  run: CachedRun,
  key: string,
  outside: OutsideKey,
): Promise<boolean> {
  if (outside.kind !== "workflow") return true;
  const request = { tenant: run.tenant, collection: "workflow", id: outside.workflow } as const;
  const answer = await ask(engine, "getDocument", request);
  if (answer.kind === "document") {
    run.records.set(key, (JSON.parse(answer.document.body) as WorkflowDocument).hash);
  }
  return answer.kind === "document" || answer.kind === "not_found";
}

async function loadForeign(
  engine: Engine,
  run: CachedRun,
  runId: RunId,
  wanted: readonly Foreign[],
): Promise<boolean> {
  const records = wanted.map(({ outside }) => outside.key);
  const answer = await ask(engine, "loadRun", { tenant: run.tenant, runId, records });
  if (answer.kind !== "run") return answer.kind === "not_found";
  const bodies = new Map(answer.records.map(({ key, body }) => [key, body]));
  for (const { key, outside } of wanted) run.records.set(key, bodies.get(outside.key));
  return true;
}
