// Judges every change of the store's state by the change itself: slots, tenants, events, and by kind in files of their own.
import { isTerminal, type RunId } from "../../../src/domain/run.ts";
import type { TenantId } from "../../../src/domain/tenant.ts";
import type { StoreSettings } from "../../../src/ports/store.ts";
import type { StoreExecution } from "../../../src/testing/simulated-store.ts";
import type { Marks } from "../invariants/marks.ts";
import { mustHold } from "../invariants/violation.ts";
import type { AnsweredActions } from "./answered-actions.ts";
import { ApprovalChecks } from "./approval-checks.ts";
import { checkCredential, eventsWanted, isAudited, isPassing, isWithin, mayHaveEffect } from "./effects.ts";
import { GateChecks } from "./gate-checks.ts";
import { hasSlot } from "./gate-position.ts";
import type { GrantChecks } from "./grant-checks.ts";
import { JobChecks } from "./job-checks.ts";
import type { Change, ChangeOf, JournaledRecords } from "./journaled-records.ts";
import { KeyChecks } from "./key-checks.ts";
import type { KnownState } from "./known-state.ts";
import { judgeLetters, noteRepeatedResult } from "./letter-checks.ts";
import { MeterChecks } from "./meter-checks.ts";
import { PlaceChecks } from "./place-checks.ts";
import type { PredictedRuns } from "./predicted-runs.ts";
import { ReleaseChecks } from "./release-checks.ts";
import { RunChecks, type RunListener, runOfScope } from "./run-checks.ts";
import { judgeStep } from "./step-checks.ts";

type StateChecksParts = {
  readonly known: KnownState;
  readonly records: JournaledRecords;
  readonly grants: GrantChecks;
  readonly marks: Marks;
  readonly settings: StoreSettings;
  readonly listener: RunListener;
  readonly actions: AnsweredActions;
  readonly predicted: PredictedRuns;
  /** Whether the process with this name has crashed. */
  readonly isCrashed: (process: string) => boolean;
  /** For how long the bus recognises a message that comes again. */
  readonly duplicateWindowMs: number;
};

export class StateChecks {
  readonly #records: JournaledRecords;
  readonly #known: KnownState;
  readonly #grants: GrantChecks;
  readonly #marks: Marks;
  readonly #runs: RunChecks;
  readonly #keys: KeyChecks;
  readonly #jobs: JobChecks;
  readonly #places: PlaceChecks;
  readonly #approvals: ApprovalChecks;
  readonly #gates: GateChecks;
  readonly #meters: MeterChecks;
  readonly #releases: ReleaseChecks;
  readonly #sightings: Sightings;
  readonly #actions: AnsweredActions;
  readonly #predicted: PredictedRuns;
  readonly #effectOfFirst = new WeakSet<object>();

  constructor(parts: StateChecksParts) {
    const { known, records, grants, marks, settings, listener, actions, predicted } = parts;
    this.#predicted = predicted;
    this.#actions = actions;
    this.#records = records;
    this.#known = known;
    this.#grants = grants;
    this.#marks = marks;
    this.#runs = new RunChecks(known, records, marks, listener);
    this.#keys = new KeyChecks(known, records, grants, marks, settings);
    this.#jobs = new JobChecks(known, records, grants, marks, parts.duplicateWindowMs);
    this.#releases = new ReleaseChecks(known);
    this.#sightings = new Sightings(known, marks, parts.isCrashed);
    this.#places = new PlaceChecks(known, records, marks);
    this.#approvals = new ApprovalChecks(known, marks);
    this.#gates = new GateChecks(known, records, marks);
    this.#meters = new MeterChecks(known, records, marks);
  }

  observe(execution: StoreExecution): void {
    const changes = inOrder(this.#records.takeChanges());
    const { name, outcome } = execution;
    this.#releases.judge(execution, changes);
    this.#sightings.see(execution, changes);
    if (outcome.kind === "unavailable") this.#marks.hit("late_request_refused");
    this.#countRepeat(execution, changes.length);
    for (const change of changes) if (change.kind === "job") this.#places.judge(execution, change);
    this.#places.check(execution);
    if (name === "reserve" || name === "createRun" || name === "commit") {
      this.#grants.observeGuardedWrite(execution, changes.length);
    }
    noteRepeatedResult(execution, this.#known);
    if (changes.length === 0) {
      this.#meters.judge(execution, changes);
      return;
    }
    mustHold(
      mayHaveEffect(execution),
      "rule 0",
      () => `${name} answered ${outcome.kind}, but it changed something`,
    );
    checkCredential(execution, this.#known);
    const touched = new Set<RunId>();
    const tenants = new Set<TenantId>();
    for (const change of changes) {
      mustHold(
        isWithin(execution, change),
        "INV-9",
        () => `${name} changed ${change.kind} of ${change.scope}`,
      );
      if (change.kind === "run" || change.kind === "active") tenants.add(change.scope as TenantId);
      this.#judge(execution, change, { changes, touched });
    }
    if (name === "setTenant") this.#saveSettings(execution);
    this.#checkEvents(execution, changes);
    judgeLetters(execution, changes, { marks: this.#marks, known: this.#known });
    for (const runId of touched) {
      this.#checkSlot(runId);
      this.#runs.checkConsistent(runId);
    }
    for (const tenant of tenants) this.#checkSlotCount(tenant);
    this.#gates.judge(execution, changes);
    this.#meters.judge(execution, changes);
  }

  /** INV-2 over the whole state, independent of the pictures kept along the way. */
  checkAllSlots(): void {
    const unfinished: string[] = [];
    for (const { scope, value } of this.#records.all("run")) {
      if (hasSlot(value)) unfinished.push(`${scope} ${value.runId}`);
    }
    const active = [...this.#records.all("active")].map(
      ({ scope, member }) => `${scope} ${member.slice(17)}`,
    );
    mustHold(
      unfinished.sort().join() === active.sort().join(),
      "INV-2",
      () => `unfinished runs: ${unfinished.join(", ")}; slots: ${active.join(", ")}`,
    );
  }

  #judge(
    execution: StoreExecution,
    change: Change,
    { changes, touched }: { readonly changes: readonly Change[]; readonly touched: Set<RunId> },
  ): void {
    switch (change.kind) {
      case "run":
        touched.add(change.member as RunId);
        this.#runs.judge(execution, change);
        return;
      case "active":
        this.#followSlot(change, touched);
        return;
      case "timeline":
        this.#runs.judgeTimeline(execution, change);
        return;
      case "inbox":
        touched.add(runOfScope(change.scope));
        this.#runs.judgeInbox(execution, change);
        return;
      case "job":
        this.#jobs.judge(execution, change);
        return;
      case "approval":
        this.#approvals.judge(execution, change, changes);
        this.#actions.judgeApproval(change);
        return;
      case "reservation":
        this.#keys.judge(execution, change);
        return;
      case "event":
        this.#judgeEvent(change);
        return;
      case "trail":
        this.#judgeRecord(change);
        return;
      case "runRecord":
        if (!this.#predicted.repeats(runOfScope(change.scope), change.member.slice("step/".length)))
          judgeStep(execution, change, this.#retried(execution, change.scope));
        this.#actions.judgeResult(execution, change);
        return;
      case "timer":
        if (execution.name === "deliver" && execution.request.entry.kind === "timer") {
          this.#marks.hit("timer_by_alarm");
        }
        return;
      case "lock":
        this.#judgeLock(execution, change);
        return;
      // The other kinds are judged together, when all changes are known: places, queues, rates, budgets and indexes.
      case "charge":
      case "document":
      case "due":
      case "ending":
      case "fence":
      case "gateQueue":
      case "heldGate":
      case "holding":
      case "keyed":
      case "ledger":
      case "line":
      case "lineKey":
      case "parked":
      case "parkedLine":
      case "place":
      case "proof":
      case "queued":
      case "queuedRun":
      case "rateLevel":
      case "ready":
      case "released":
      case "running":
      case "sweepMark":
      case "tenant":
      case "ticket":
        return;
    }
  }

  #followSlot({ scope, member, after }: ChangeOf<"active">, touched: Set<RunId>): void {
    const runId = member.slice(17) as RunId;
    touched.add(runId);
    const { active, phantoms } = this.#known.tenant(scope as TenantId);
    if (after === undefined && phantoms.delete(member)) this.#marks.hit("slot_repaired");
    else if (after === undefined) active.delete(runId);
    else active.add(runId);
  }

  /** Said by the retry in its inbox, or by one that was applied at once and never stood there. */
  #retried({ name, request }: StoreExecution, scope: string): "retried" | "never retried" {
    const run = this.#known.run(runOfScope(scope));
    if (run !== undefined && name === "deliver" && request.entry.kind === "retry") run.retried = true;
    return run?.retried === true ? "retried" : "never retried";
  }

  #judgeLock({ name }: StoreExecution, { scope, member, after }: ChangeOf<"lock">): void {
    if (after === undefined) this.#grants.forget(scope as TenantId, member);
    else if (name === "takeRun" || name === "deliver")
      this.#runs.taken(member.slice(member.indexOf("/") + 1));
  }

  #judgeEvent({ scope, before, after }: ChangeOf<"event">): void {
    if (after === undefined) return;
    const known = this.#known.tenant(scope as TenantId);
    mustHold(
      before === undefined && after.sequence === known.lastEvent + 1,
      "INV-17",
      () => `event ${after.sequence} of ${scope} follows event ${known.lastEvent}`,
    );
    known.lastEvent = after.sequence;
  }

  #judgeRecord({ scope, before, after }: ChangeOf<"trail">): void {
    if (after === undefined) return;
    const known = this.#known.tenant(scope as TenantId);
    mustHold(
      before === undefined && after.sequence === known.lastRecord + 1,
      "INV-17",
      () => `audit record ${after.sequence} of ${scope} follows record ${known.lastRecord}`,
    );
    known.lastRecord = after.sequence;
  }

  #checkEvents(execution: StoreExecution, changes: readonly Change[]): void {
    let rows = 0;
    const audited: string[] = [];
    const recorded: string[] = [];
    for (const { kind, after } of changes) {
      if (after === undefined) continue;
      if (kind === "event" && !isPassing(after, this.#stateOf(execution, after.subject))) rows += 1;
      if (kind === "trail") recorded.push(after.subject);
      else if (kind === "event" && isAudited(after)) audited.push(after.subject);
    }
    const wanted = eventsWanted(execution, changes);
    mustHold(
      rows === wanted,
      "INV-17",
      () =>
        `${execution.name} answered ${execution.outcome.kind} and wrote ${rows} events instead of ${wanted}`,
    );
    mustHold(
      recorded.join() === audited.join(),
      "INV-17",
      () => `${execution.name} recorded ${recorded} for the audit instead of ${audited}`,
    );
  }

  #stateOf({ request }: StoreExecution, runId: string) {
    const tenant = "tenant" in request ? request.tenant : this.#known.run(runId)?.tenant;
    return this.#records.get("run", tenant ?? "", runId);
  }

  #saveSettings({ request, outcome }: Extract<StoreExecution, { readonly name: "setTenant" }>): void {
    const known = this.#known.tenant(request.tenant);
    if (outcome.kind !== "saved") return;
    mustHold(
      outcome.version === known.version + 1,
      "INV-17",
      () => `version ${outcome.version} of ${request.tenant}`,
    );
    const { settings } = request;
    if (settings.admissionStrategy !== known.settings.admissionStrategy) this.#marks.hit("strategy_changed");
    if (known.unfinished.size > (settings.maxConcurrentRuns ?? Number.POSITIVE_INFINITY)) {
      this.#marks.hit("limit_lowered_below_use");
    }
    known.settings = settings;
    known.version = outcome.version;
  }

  #checkSlot(runId: RunId): void {
    const run = this.#known.run(runId);
    if (run === undefined) return;
    const { unfinished, active } = this.#known.tenant(run.tenant);
    mustHold(
      unfinished.has(runId) === active.has(runId),
      "INV-2",
      () => `run ${runId} is ${run.status}, and it has ${active.has(runId) ? "a" : "no"} slot`,
    );
  }

  #checkSlotCount(tenant: TenantId): void {
    const counted = this.#records.size("active", tenant);
    const { unfinished, phantoms } = this.#known.tenant(tenant);
    mustHold(
      counted === unfinished.size + phantoms.size,
      "INV-2",
      () => `${tenant} has ${unfinished.size} unfinished runs and ${counted} slots`,
    );
  }

  /** Both executions of a request share its request object: that is how the second one is recognised. */
  #countRepeat({ execution, request }: StoreExecution, changed: number): void {
    if (execution === "first" && changed > 0) this.#effectOfFirst.add(request);
    if (execution === "second" && changed === 0 && this.#effectOfFirst.has(request)) {
      this.#marks.hit("double_execution_absorbed");
    }
  }
}

/** Runs first: what belongs to them is judged by what they are after the operation. Stable within a kind. */
function inOrder(changes: readonly Change[]): readonly Change[] {
  if (changes.length < 2 || !changes.some(({ kind }) => kind === "run")) return changes;
  return [...changes.filter(({ kind }) => kind === "run"), ...changes.filter(({ kind }) => kind !== "run")];
}

class Sightings {
  readonly #known: KnownState;
  readonly #marks: Marks;
  /** Whether the process with this name has crashed. */
  readonly #isCrashed: (process: string) => boolean;
  /** The process that enqueued each job, and so was the first to publish it. */
  readonly #putUpBy = new Map<string, string>();

  constructor(known: KnownState, marks: Marks, isCrashed: (process: string) => boolean) {
    this.#known = known;
    this.#marks = marks;
    this.#isCrashed = isCrashed;
  }

  see(execution: StoreExecution, changes: readonly Change[]): void {
    const { name, request, outcome, caller } = execution;
    if (name === "commit" && outcome.kind === "committed" && changes.length === 0) {
      if (isTerminal(request.change.status)) this.#marks.hit("end_repeated");
    }
    for (const change of changes) {
      if (change.kind === "run") this.#seeRun(change);
      if (change.kind === "job" && change.before === undefined) this.#putUpBy.set(change.member, caller);
      if (change.kind === "job" && change.before !== undefined)
        this.#seeJob(change.before.republished, change.after?.republished, change.member);
      if (change.kind === "running" && change.after === undefined) this.#marks.hit("place_freed");
      if (change.kind === "document" && change.before === undefined && change.scope.endsWith("/deadLetter"))
        this.#seeLetter(change);
    }
  }

  #seeLetter({ member, after }: ChangeOf<"document">): void {
    this.#marks.hit("dead_letter_written");
    const run = this.#known.run(member.slice(0, member.indexOf(":")));
    if (run !== undefined && after?.body.includes('"claims_lost"')) run.claimsLost = true;
  }

  /** Outbox after a crash: the process that should have published the job is gone, and the sweep does it. */
  #seeJob(before: number, after: number | undefined, jobId: string): void {
    if (after === undefined || after <= before) return;
    if (this.#isCrashed(this.#putUpBy.get(jobId) ?? "")) this.#marks.hit("job_published_again_after_crash");
  }

  #seeRun({ scope, before, after }: Extract<Change, { readonly kind: "run" }>): void {
    const { settings, active } = this.#known.tenant(scope as TenantId);
    const full = active.size >= (settings.maxConcurrentRuns ?? Number.POSITIVE_INFINITY);
    if (!full || after === undefined) return;
    if (before === undefined && after.parent !== undefined) this.#marks.hit("child_at_the_limit");
    if (before !== undefined && before.status !== "waiting" && after.status === "waiting")
      this.#marks.hit("parked_at_the_limit");
    if (before?.status === "waiting" && after.status === "running") this.#marks.hit("resumed_at_the_limit");
  }
}
