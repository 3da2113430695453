// Judges every change of the store's state by the change itself: limits, slots, keys, runs and events (INV-1, 2, 6, 9, 10, 17).
import { isTerminal, type RunHeader, type RunId, type RunStatus } from "../../domain/run.ts";
import type { TenantId, TenantSettings } from "../../domain/tenant.ts";
import type { KeyRequest } from "../../ports/store.ts";
import type { StoreExecution } from "../simulated-store.ts";
import type { GrantChecks } from "./grant-checks.ts";
import type { Change, JournaledRecords } from "./journaled-records.ts";
import type { Marks } from "./marks.ts";
import { mustHold } from "./violation.ts";

/** A run as the checks remember it from its creation on. */
export type KnownRun = {
  readonly runId: RunId;
  readonly tenant: TenantId;
  readonly actor: string;
  readonly key: KeyRequest | undefined;
  status: RunStatus;
  /** Who ended it. */
  endedBy: string | undefined;
};

export type RunListener = { runCreated(run: KnownRun): void; runEnded(run: KnownRun): void };

export type KnownTenant = {
  settings: TenantSettings;
  version: number;
  /** Runs that are not terminal. */
  readonly unfinished: Set<RunId>;
  /** Runs that have a slot. */
  readonly active: Set<RunId>;
  readonly runByKey: Map<string, RunId>;
  lastEvent: number;
};

type ChangeOf<Kind extends Change["kind"]> = Extract<Change, { readonly kind: Kind }>;

/** Outcomes that may have changed something; all others are refusals and reads. */
const effects = new Set([
  ...["acquired", "renewed", "released", "saved"],
  ...["admitted", "created", "reserved", "cancelled", "ended"],
]);

export class StateChecks {
  readonly #records: JournaledRecords;
  readonly #grants: GrantChecks;
  readonly #marks: Marks;
  readonly #tenants = new Map<TenantId, KnownTenant>();
  readonly #runs = new Map<RunId, KnownRun>();
  readonly #runByActor = new Map<string, KnownRun>();
  readonly #listener: RunListener;
  readonly #effectOfFirst = new WeakSet<object>();

  constructor(records: JournaledRecords, grants: GrantChecks, marks: Marks, listener: RunListener) {
    this.#records = records;
    this.#grants = grants;
    this.#marks = marks;
    this.#listener = listener;
  }

  observe(execution: StoreExecution): void {
    const changes = this.#records.takeChanges();
    const { name, outcome, request } = execution;
    if (outcome.kind === "unavailable") this.#marks.hit("late_request_refused");
    this.#countRepeat(execution, changes.length);
    if (name === "reserve" || name === "createRun" || name === "endRun") {
      this.#grants.observeGuardedWrite(execution, changes.length);
    }
    if (changes.length === 0) return;
    mustHold(
      effects.has(outcome.kind),
      "rule 0",
      () => `${name} answered ${outcome.kind}, but it changed something`,
    );
    const touched = new Set<RunId>();
    for (const change of changes) {
      mustHold(
        belongsTo(change, request.tenant),
        "INV-9",
        () => `${name} of ${request.tenant} changed ${change.scope}`,
      );
      this.#judge(execution, change, touched);
    }
    if (name === "setTenant") this.#saveSettings(execution);
    this.#checkEvents(execution, changes);
    for (const runId of touched) this.#checkSlot(request.tenant, runId);
    this.#checkSlotCount(request.tenant);
  }

  tenant(tenant: TenantId): KnownTenant {
    let known = this.#tenants.get(tenant);
    if (known === undefined) {
      const runByKey = new Map<string, RunId>();
      known = { settings: {}, version: 0, unfinished: new Set(), active: new Set(), runByKey, lastEvent: 0 };
      this.#tenants.set(tenant, known);
    }
    return known;
  }

  run(runId: RunId): KnownRun | undefined {
    return this.#runs.get(runId);
  }

  runs(): Iterable<KnownRun> {
    return this.#runs.values();
  }

  runOfActor(actor: string): KnownRun | undefined {
    return this.#runByActor.get(actor);
  }

  runOfKey(tenant: TenantId, digest: string): KnownRun | undefined {
    const runId = this.tenant(tenant).runByKey.get(digest);
    return runId === undefined ? undefined : this.#runs.get(runId);
  }

  /** INV-2 over the whole state, independent of the pictures kept along the way. */
  checkAllSlots(): void {
    const unfinished: string[] = [];
    for (const { scope, value } of this.#records.all("run")) {
      if (!isTerminal(value.status)) unfinished.push(`${scope} ${value.runId}`);
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

  #judge(execution: StoreExecution, change: Change, touched: Set<RunId>): void {
    switch (change.kind) {
      case "run":
        touched.add(change.member as RunId);
        this.#judgeRun(execution, change);
        return;
      case "active": {
        const runId = change.member.slice(17) as RunId;
        touched.add(runId);
        const { active } = this.tenant(execution.request.tenant);
        if (change.after === undefined) active.delete(runId);
        else active.add(runId);
        return;
      }
      case "reservation":
        this.#judgeReservation(execution, change);
        return;
      case "event":
        this.#judgeEvent(execution.request.tenant, change);
        return;
      case "tenant":
      case "lock":
      case "fence":
      case "runRecord":
        return;
    }
  }

  #judgeRun(execution: StoreExecution, { before, after, member }: ChangeOf<"run">): void {
    const { name, request } = execution;
    const run = this.#runs.get(member as RunId);
    if (after === undefined) {
      mustHold(false, "INV-17", () => `${name} removed run ${member}`);
      return;
    }
    if (before === undefined) {
      mustHold(
        (name === "admit" || name === "createRun") && run === undefined && !isTerminal(after.status),
        "INV-17",
        () => `${name} made run ${member} with status ${after.status}`,
      );
      this.#create(execution, after);
      return;
    }
    mustHold(
      name === "endRun" && run !== undefined && !isTerminal(run.status) && isTerminal(after.status),
      "INV-17",
      () => `${name} took run ${member} from ${before.status} to ${after.status}`,
    );
    if (run === undefined) return;
    run.status = after.status;
    run.endedBy = name === "endRun" ? request.actor : "";
    this.tenant(request.tenant).unfinished.delete(run.runId);
    this.#listener.runEnded(run);
  }

  #create(execution: StoreExecution, header: RunHeader): void {
    if (execution.name !== "admit" && execution.name !== "createRun") return;
    const { tenant, run } = execution.request;
    const { settings, unfinished, runByKey } = this.tenant(tenant);
    unfinished.add(header.runId);
    const limit = settings.maxConcurrentRuns ?? Number.POSITIVE_INFINITY;
    mustHold(
      unfinished.size <= limit,
      "INV-1",
      () => `${execution.name} made run ${unfinished.size} of ${tenant}, whose limit is ${limit}`,
    );
    mustHold(
      settings.stopped !== true,
      "INV-1",
      () => `${execution.name} made a run of ${tenant}, which is stopped`,
    );
    if (run.key !== undefined) {
      const first = runByKey.get(run.key.digest);
      mustHold(
        first === undefined,
        "INV-6",
        () => `${execution.name} by ${execution.caller} made ${run.runId} for a key that had made ${first}`,
      );
      runByKey.set(run.key.digest, run.runId);
    }
    const { runId, actor, key } = run;
    const known: KnownRun = { runId, tenant, actor, key, status: header.status, endedBy: undefined };
    this.#runs.set(runId, known);
    this.#runByActor.set(actor, known);
    this.#listener.runCreated(known);
  }

  #judgeReservation(
    { name, request }: StoreExecution,
    { before, after, member }: ChangeOf<"reservation">,
  ): void {
    const { tenant } = request;
    if (after?.state === "bound") {
      const run = this.#runs.get(after.runId);
      mustHold(
        run?.tenant === tenant,
        "INV-7",
        () => `a key of ${tenant} was bound to ${after.runId}, which is not there`,
      );
      const endless = after.expiresAtMs === undefined;
      mustHold(
        endless || (run !== undefined && isTerminal(run.status)),
        "INV-10",
        () => `the key of ${after.runId} got an expiry, but the run has not ended`,
      );
    }
    if (before === undefined || before.runId === after?.runId) return;
    if (before.state === "bound") {
      mustHold(false, "INV-10", () => `${name} took the key ${member} away from ${before.runId}`);
      return;
    }
    if (name === "cancelReservation") {
      const ours = before.runId === request.runId && before.token === request.token;
      mustHold(ours, "INV-7", () => `a reservation of ${before.runId} was given back for ${request.runId}`);
      return;
    }
    const holder = this.#grants.holderToken({ tenant, lock: { namespace: "admission", name: "" } });
    mustHold(
      before.token !== holder,
      "INV-7",
      () => `${name} took a key away from ${before.runId}, still being admitted`,
    );
    this.#marks.hit("dead_reservation_replaced");
  }

  #judgeEvent(tenant: TenantId, { before, after }: ChangeOf<"event">): void {
    if (after === undefined) return;
    const known = this.tenant(tenant);
    mustHold(
      before === undefined && after.sequence === known.lastEvent + 1,
      "INV-17",
      () => `event ${after.sequence} of ${tenant} follows event ${known.lastEvent}`,
    );
    known.lastEvent = after.sequence;
  }

  /** One event row per run made, run ended or tenant changed, and none besides. */
  #checkEvents({ name, outcome, request }: StoreExecution, changes: readonly Change[]): void {
    const rows = changes.filter(({ kind, after }) => kind === "event" && after !== undefined).length;
    const wanted = ["saved", "admitted", "created", "ended"].includes(outcome.kind) ? 1 : 0;
    mustHold(
      rows === wanted,
      "INV-17",
      () => `${name} of ${request.tenant} answered ${outcome.kind} and wrote ${rows} events`,
    );
  }

  #saveSettings({ request, outcome }: Extract<StoreExecution, { readonly name: "setTenant" }>): void {
    const known = this.tenant(request.tenant);
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

  #checkSlot(tenant: TenantId, runId: RunId): void {
    const { unfinished, active } = this.tenant(tenant);
    mustHold(
      unfinished.has(runId) === active.has(runId),
      "INV-2",
      () =>
        `run ${runId} is ${this.#runs.get(runId)?.status}, and it has ${active.has(runId) ? "a" : "no"} slot`,
    );
  }

  #checkSlotCount(tenant: TenantId): void {
    const counted = this.#records.size("active", tenant);
    const { unfinished } = this.tenant(tenant);
    mustHold(
      counted === unfinished.size,
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

function belongsTo(change: Change, tenant: TenantId): boolean {
  switch (change.kind) {
    case "fence":
      return true;
    case "runRecord":
      return change.scope.startsWith(`${tenant}/`);
    case "lock":
    case "tenant":
    case "run":
    case "active":
    case "reservation":
    case "event":
      return change.scope === tenant;
  }
}
