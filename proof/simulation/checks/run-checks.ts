// Every change of a run is a legal one: statuses, versions, timeline and inbox, and nothing after the end (INV-17, INV-23).

import { orderedNumber, type StoredRun } from "../../../src/adapters/operations/records.ts";
import { drainsMax, type InboxEntry } from "../../../src/domain/inbox.ts";
import { type ChildRun, isTerminal, type RunId, type RunStatus } from "../../../src/domain/run.ts";
import { partitionLabel, partitionOf } from "../../../src/domain/tenant.ts";
import type { StoreExecution } from "../../../src/testing/simulated-store.ts";
import type { Marks } from "../invariants/marks.ts";
import { mustHold } from "../invariants/violation.ts";
import { hasSlot } from "./gate-position.ts";
import type { ChangeOf, JournaledRecords } from "./journaled-records.ts";
import type { KnownRun, KnownState } from "./known-state.ts";
import { mayReopen } from "./letter-checks.ts";

export type RunListener = { runCreated(run: KnownRun): void; runEnded(run: KnownRun): void };

/** Where a run may go from each status that is not final; staying is always allowed. */
const nextStatuses: Readonly<Partial<Record<RunStatus, readonly RunStatus[]>>> = {
  pending: ["running", "waiting"],
  running: ["waiting"],
  waiting: ["running"],
};

export class RunChecks {
  readonly #known: KnownState;
  readonly #records: JournaledRecords;
  readonly #marks: Marks;
  readonly #listener: RunListener;

  constructor(known: KnownState, records: JournaledRecords, marks: Marks, listener: RunListener) {
    this.#known = known;
    this.#records = records;
    this.#marks = marks;
    this.#listener = listener;
  }

  judge(execution: StoreExecution, { before, after, member }: ChangeOf<"run">): void {
    const run = this.#known.run(member);
    if (before === undefined && after !== undefined) this.#create(execution, after);
    else if (isRemoval(before, after)) this.#remove(execution, run, member);
    else if (before?.deleted) this.#clearGrave(execution, member, after);
    else if (run !== undefined && before !== undefined && after !== undefined)
      this.#change(execution, run, { before, after });
  }

  judgeTimeline({ name }: StoreExecution, { before, after, scope, member }: ChangeOf<"timeline">): void {
    if (after === undefined) return;
    const run = this.#known.run(runOfScope(scope));
    mustHold(
      before === undefined && run !== undefined && Number(member) === run.version,
      "INV-17",
      () => `${name} wrote timeline row ${member} of ${scope}, which is at version ${run?.version}`,
    );
  }

  /** Entries come in at the tail and leave at the head; one is set aside only after five owners in vain. */
  judgeInbox(execution: StoreExecution, { before, after, scope, member }: ChangeOf<"inbox">): void {
    const { name } = execution;
    const run = this.#known.run(runOfScope(scope));
    if (after === undefined) {
      const allowed = name === "commit" || name === "deliver" || run?.removed === true || run === undefined;
      mustHold(allowed, "INV-23", () => `${name} took entry ${member} out of the inbox of ${scope}`);
      return;
    }
    if (before === undefined) {
      const bringers = ["admit", "createRun", "deliver", "sweep", "commit", "handOn", "moveQueued"];
      if (after.kind === "child_ended") this.#judgeEnd(after, scope);
      mustHold(
        bringers.includes(name) && run !== undefined && !isTerminal(run.status),
        "INV-23",
        () => `${name} put an entry into the inbox of ${scope}, which is ${run?.status}`,
      );
      if (name === "sweep" && after.kind === "timer") this.#marks.hit("timer_by_sweep");
      if (name === "sweep" && after.kind === "claim_lost") this.#marks.hit("claim_lost");
      if (after.kind === "retry" && run !== undefined) run.retried = true;
      return;
    }
    this.#judgePoisoned(execution, { before, after, scope });
  }

  /** What a parent is told of its child is what the child is. */
  #judgeEnd({ runId, status, step, attempt }: ChildEnded, scope: string): void {
    const child = this.#known.run(runId);
    const { parent } = child ?? {};
    const isTrue =
      child?.status === status &&
      parent?.runId === runOfScope(scope) &&
      parent.step === step &&
      parent.attempt === attempt;
    mustHold(
      isTrue,
      "children",
      () => `${scope} was told that ${runId} ended ${status}: it is ${child?.status}`,
    );
    this.#marks.hit("child_run_ended");
  }

  /** A new owner; the checks count for themselves. */
  taken(runId: string): void {
    const run = this.#known.run(runId);
    if (run !== undefined) run.takes += 1;
  }

  /** To be called when all changes of the operation are known. */
  checkConsistent(runId: RunId): void {
    const run = this.#known.run(runId);
    if (run === undefined || run.removed) return;
    const { tenant } = run;
    const state = this.#records.get("run", tenant, runId);
    if (state === undefined) return;
    const left = isTerminal(run.status)
      ? this.#known.childrenOf(runId).find((child) => !isTerminal(child.status) && !child.cancelRequested)
      : undefined;
    mustHold(left === undefined, "children", () => `${runId} is ${run.status}, and ${left?.runId} goes on`);
    const waiting = this.#records.size("inbox", `${tenant}/${runId}`);
    mustHold(
      waiting === state.entriesWaiting,
      "INV-23",
      () => `${runId} counts ${state.entriesWaiting} entries, ${waiting} are there`,
    );
    const found = state.attentionAtMs !== undefined && this.#isDue(state, state.attentionAtMs);
    mustHold(
      waiting === 0 || found,
      "INV-23",
      () => `${waiting} entries wait in ${runId}, and the sweep would not find them`,
    );
    mustHold(
      this.#records.get("timeline", `${tenant}/${runId}`, orderedNumber(run.version)) !== undefined,
      "INV-17",
      () => `version ${run.version} of ${runId} has no timeline row`,
    );
    const first = orderedNumber(state.entriesAppended - state.entriesWaiting + 1);
    const head = this.#records.get("inbox", `${tenant}/${runId}`, first);
    mustHold(
      run.takes <= drainsMax || head?.kind === "poisoned",
      "INV-23",
      () => `${runId} was taken ${run.takes} times without a commit, and its head is ${head?.kind}`,
    );
  }

  #isDue({ tenant, runId }: StoredRun, atMs: number): boolean {
    const member = `${orderedNumber(atMs)} attention ${tenant} ${runId}`;
    return this.#records.get("due", partitionLabel(partitionOf(tenant)), member) !== undefined;
  }

  #create(execution: StoreExecution, state: StoredRun): void {
    const { name, request, caller } = execution;
    if (state.parent !== undefined) {
      this.#createChild(execution, state);
      return;
    }
    const legal = (name === "admit" || name === "createRun") && state.version === 1;
    mustHold(
      legal && this.#known.run(state.runId) === undefined,
      "INV-17",
      () => `${name} made run ${state.runId}, ${state.status} at version ${state.version}`,
    );
    if (name !== "admit" && name !== "createRun") return;
    const { tenant, run } = request;
    const { settings, unfinished } = this.#known.tenant(tenant);
    const { runId, actor, key, workflow } = run;
    if (key !== undefined) {
      const first = this.#known.runOfKey(tenant, key.digest, execution.storeTimeMs);
      mustHold(
        first === undefined,
        "INV-6",
        () => `${name} by ${caller} made ${runId} for a key that had made ${first?.runId}`,
      );
    }
    const known = newRun({ runId, tenant, actor, workflow, key, parent: undefined }, state);
    this.#known.add(known);
    const limit = settings.maxConcurrentRuns ?? Number.POSITIVE_INFINITY;
    mustHold(
      state.status === "queued" || unfinished.size <= limit,
      "INV-1",
      () => `${name} made run ${unfinished.size} of ${tenant}, whose limit is ${limit}`,
    );
    mustHold(settings.stopped !== true, "INV-1", () => `${name} made a run of ${tenant}, which is stopped`);
    known.status = state.status;
    if (isTerminal(state.status)) this.#end(execution, known, runId);
    this.#listener.runCreated(known);
  }

  /** Only the commit of its parent can have made it, and only once. */
  #createChild(execution: StoreExecution, state: StoredRun): void {
    const { name } = execution;
    const { runId, tenant, actor, workflow, parent } = state;
    const asked = childrenOf(execution).find((child) => child.runId === runId);
    const isAsked = asked?.step === parent?.step && asked?.attempt === parent?.attempt;
    mustHold(
      asked !== undefined && isAsked && this.#known.run(runId) === undefined && state.version === 1,
      "children",
      () => `${name} made run ${runId} for step ${parent?.step}@${parent?.attempt} of ${parent?.runId}`,
    );
    const known = newRun({ runId, tenant, actor, workflow, key: undefined, parent }, state);
    known.cancelRequested = state.cancelRequested;
    known.status = state.status;
    this.#known.add(known);
    this.#marks.hit("child_run_started");
  }

  #change(
    execution: StoreExecution,
    run: KnownRun,
    { before, after }: { readonly before: StoredRun; readonly after: StoredRun },
  ): void {
    const { name } = execution;
    const what = () =>
      `${name} took run ${run.runId} from ${before.version} ${before.status} to ${after.version} ${after.status}`;
    if (isTerminal(run.status) && !isTerminal(after.status)) {
      this.#reopen(execution, run, after);
      return;
    }
    mustHold(isSameRun(before, after), "INV-17", () => `${name} changed who ${run.runId} is`);
    if (isTerminal(run.status)) {
      const same = after.status === run.status && after.version === run.version;
      mustHold(same && after.entriesWaiting === 0, "INV-17", what);
      return;
    }
    const { unfinished } = this.#known.tenant(run.tenant);
    if (hasSlot(after)) unfinished.add(run.runId);
    else unfinished.delete(run.runId);
    if (after.cancelRequested !== before.cancelRequested) {
      const isAsked = name === "deliver" || (name === "commit" && run.parent !== undefined);
      const isSuperseded = after.cancelRequested?.startsWith("superseded:") === true;
      if (isSuperseded) this.#marks.hit("oldest_run_cancelled");
      const legal =
        (isAsked || (isSuperseded && movers.includes(name))) && before.cancelRequested === undefined;
      mustHold(legal, "INV-17", () => `${name} changed the cancellation of ${run.runId}`);
      run.cancelRequested = after.cancelRequested;
    }
    if (after.version === before.version) {
      if (before.status === "queued" && after.status === "pending") {
        run.status = "pending";
        return;
      }
      mustHold(after.status === before.status, "INV-17", what);
      return;
    }
    const isUnbegun = run.status === "queued" && isTerminal(after.status) && movers.includes(name);
    const committing = name === "commit" || name === "deliver" || isUnbegun;
    mustHold(committing && after.version === run.version + 1, "INV-17", what);
    const legal =
      after.status === run.status ||
      isTerminal(after.status) ||
      nextStatuses[run.status]?.includes(after.status) === true;
    mustHold(legal, "INV-17", what);
    run.version = after.version;
    run.status = after.status;
    run.takes = 0;
    if (name === "deliver") this.#marks.hit("proposal_applied");
    if (isTerminal(after.status)) this.#end(execution, run, isUnbegun ? "unbegun" : commitIdOf(execution));
  }

  /** The one way back: the retry of a dead letter. */
  #reopen(execution: StoreExecution, run: KnownRun, after: StoredRun): void {
    const same = after.version === run.version && after.status === "running";
    mustHold(
      same && mayReopen(execution, run, this.#known),
      "INV-17",
      () => `${execution.name} opened ${run.runId} again, which was ${run.status}`,
    );
    Object.assign(run, { status: after.status, endedBy: undefined, endedAtMs: undefined, takes: 0 });
    if (run.parent === undefined) this.#known.tenant(run.tenant).unfinished.add(run.runId);
    this.#marks.hit("run_reopened");
  }

  #end({ storeTimeMs }: StoreExecution, run: KnownRun, commitId: string): void {
    run.endedBy = commitId;
    run.endedAtMs = storeTimeMs;
    this.#known.tenant(run.tenant).unfinished.delete(run.runId);
    if (run.parent === undefined) this.#listener.runEnded(run);
  }

  #remove({ name }: StoreExecution, run: KnownRun | undefined, member: string): void {
    mustHold(
      (name === "deleteRun" || name === "sweep") && run !== undefined && isTerminal(run.status),
      "INV-17",
      () => `${name} removed run ${member}, which is ${run?.status}`,
    );
    if (run === undefined) return;
    run.removed = true;
    this.#marks.hit(name === "sweep" ? "run_removed_by_retention" : "run_deleted");
  }

  /** What is left of a removed run keeps its place for a minute, so that a late start finds it; then the sweep takes it. */
  #clearGrave({ name }: StoreExecution, member: string, after: StoredRun | undefined): void {
    const legal = name === "sweep" && (after === undefined || after.deleted === true);
    mustHold(legal, "INV-17", () => `${name} touched run ${member}, which was removed`);
  }

  #judgePoisoned(
    { name, records }: StoreExecution,
    {
      before,
      after,
      scope,
    }: { readonly before: InboxEntry; readonly after: InboxEntry; readonly scope: string },
  ): void {
    const legal = (name === "takeRun" || name === "deliver") && after.kind === "poisoned";
    mustHold(
      legal && before.kind !== "poisoned" && after.was === JSON.stringify(before),
      "INV-23",
      () => `${name} turned ${before.kind} into ${after.kind} in the inbox of ${scope}`,
    );
    const [tenant = "", runId = ""] = scope.split("/");
    const letter = records.get("document", `${tenant}/deadLetter`, `${runId}:${before.entryId}`);
    mustHold(letter !== undefined, "INV-23", () => `${before.entryId} of ${runId} left no dead letter`);
    this.#marks.hit("entry_poisoned");
    const run = this.#known.run(runId);
    if (run !== undefined) Object.assign(run, { takes: 0, poisoned: true });
  }
}

type ChildEnded = InboxEntry & { readonly kind: "child_ended" };

type NewRun = Pick<KnownRun, "runId" | "tenant" | "actor" | "workflow" | "key" | "parent">;

function newRun(run: NewRun, { admittedAtMs, status }: StoredRun): KnownRun {
  return {
    ...run,
    admittedAtMs,
    status,
    version: 1,
    endedBy: undefined,
    endedAtMs: undefined,
    cancelRequested: undefined,
    takes: 0,
    removed: false,
    poisoned: false,
    claimsLost: false,
    unpaid: false,
    retried: false,
  };
}

/** The runs that a request asks for. */
function childrenOf({ name, request }: StoreExecution): readonly ChildRun[] {
  if (name === "admit" || name === "createRun") return request.run.change.children;
  if (name === "commit") return request.change.children;
  return name === "deliver" ? (request.proposal?.change.children ?? []) : [];
}

/** From being there to not being there, whatever is left of it. */
export function isRemoval(before: StoredRun | undefined, after: StoredRun | undefined): boolean {
  return (
    before !== undefined && before.deleted === undefined && (after === undefined || after.deleted === true)
  );
}

export function runOfScope(scope: string): RunId {
  return scope.slice(scope.indexOf("/") + 1) as RunId;
}

/** Operations that free places, and with them move those that wait. */
const movers: readonly string[] = ["admit", "deliver", "commit", "sweep", "handOn", "moveQueued"];

/** A run that waited is admitted later than it was asked for. */
function isSameRun(before: StoredRun, after: StoredRun): boolean {
  const isAdmitted = before.status === "queued" && after.status !== "queued";
  return (
    fixedPart(before) === fixedPart(isAdmitted ? { ...after, admittedAtMs: before.admittedAtMs } : after)
  );
}

/** What no commit may change. */
function fixedPart({
  runId,
  tenant,
  workflow,
  definition,
  actor,
  admittedAtMs,
  reservation,
}: StoredRun): string {
  return [runId, tenant, workflow, definition, actor, admittedAtMs, reservation].join("\n");
}

function commitIdOf({ name, request }: StoreExecution): string {
  if (name === "commit") return request.commitId;
  return name === "deliver" ? (request.proposal?.commitId ?? "") : "";
}
