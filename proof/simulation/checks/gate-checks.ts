// Gates by the runs themselves: who holds a place and who waits where, against what the store counts by (INV-31, 32, 33, 37).
import type { StoredRun } from "../../../src/adapters/operations/records.ts";
import { type GateId, limitPlaceOf, settingsLimit, tenantGate } from "../../../src/domain/gates.ts";
import { isTerminal, type RunId } from "../../../src/domain/run.ts";
import type { TenantId } from "../../../src/domain/tenant.ts";
import type { StoreExecution } from "../../../src/testing/simulated-store.ts";
import type { Marks } from "../invariants/marks.ts";
import { mustHold } from "../invariants/violation.ts";
import { GateIndexes } from "./gate-indexes.ts";
import { type GatePosition, positionOf } from "./gate-position.ts";
import type { Change, ChangeOf, JournaledRecords } from "./journaled-records.ts";
import type { KnownState } from "./known-state.ts";
import { ShareChecks } from "./share-checks.ts";

type GatesOfTenant = Map<RunId, GatePosition>;

/** A run before and after the operation under way. */
export type Move = {
  readonly runId: RunId;
  readonly before: GatePosition | undefined;
  readonly after: GatePosition | undefined;
  readonly state: StoredRun | undefined;
};

/** What may show in a tenant's gates. */
const kindsOfGates: ReadonlySet<Change["kind"]> = new Set<Change["kind"]>([
  ...(["run", "place", "heldGate", "gateQueue", "line", "lineKey", "queuedRun", "queued"] as const),
  ...(["active", "tenant"] as const),
]);

export class GateChecks {
  readonly #known: KnownState;
  readonly #records: JournaledRecords;
  readonly #marks: Marks;
  readonly #indexes: GateIndexes;
  readonly #shares: ShareChecks;
  readonly #tenants = new Map<TenantId, GatesOfTenant>();
  /** Runs that were granted their last place, and whose inbox nobody has opened since. */
  readonly #woken = new Set<RunId>();
  /** Tenants that had gates or queues: all others have nothing to compare. */
  readonly #gated = new Set<TenantId>();

  constructor(known: KnownState, records: JournaledRecords, marks: Marks) {
    this.#known = known;
    this.#records = records;
    this.#marks = marks;
    this.#indexes = new GateIndexes(records);
    this.#shares = new ShareChecks(marks);
  }

  /** To be called when runs and settings are known as they are now. */
  judge(execution: StoreExecution, changes: readonly Change[]): void {
    const moves = new Map<TenantId, Move[]>();
    const touched = new Set<TenantId>();
    for (const change of changes) {
      const tenant = tenantOf(change);
      if (tenant !== undefined) touched.add(tenant);
      if (change.kind !== "run") continue;
      const move = this.#follow(execution, change);
      moves.set(move.tenant, [...(moves.get(move.tenant) ?? []), move]);
    }
    if (execution.name === "sweep") this.#noteFound(execution);
    for (const tenant of touched) {
      if (!this.#gated.has(tenant)) continue;
      this.#judgeTenant(execution, tenant, moves.get(tenant) ?? []);
    }
  }

  #follow(execution: StoreExecution, { scope, member, before, after }: ChangeOf<"run">) {
    const tenant = scope as TenantId;
    const runId = member as RunId;
    const runs = this.#tenants.get(tenant) ?? new Map<RunId, GatePosition>();
    this.#tenants.set(tenant, runs);
    if (after?.gates !== undefined) this.#gated.add(tenant);
    const was = runs.get(runId);
    const is = positionOf(after);
    if (is === undefined) runs.delete(runId);
    else runs.set(runId, is);
    if (after !== undefined) checkRun(execution, after);
    this.#noteWoken(runId, before, after);
    return { tenant, runId, before: was, after: is, state: after };
  }

  #judgeTenant(execution: StoreExecution, tenant: TenantId, moves: readonly Move[]): void {
    const runs = this.#tenants.get(tenant) ?? new Map<RunId, GatePosition>();
    this.#checkAdditions(execution, tenant, runs, moves);
    this.#indexes.check(execution, tenant, runs);
    this.#checkFreePlaces(execution, tenant, runs);
    if (moves.some(({ after }) => after?.waiting !== undefined)) this.#checkDeadlock(execution, tenant, runs);
    this.#shares.judge(execution, tenant, moves, runs);
    this.#count(execution, tenant, moves);
  }

  /** INV-31: a place that was taken was free by the limit that the operation has read. */
  #checkAdditions(
    { name }: StoreExecution,
    tenant: TenantId,
    runs: GatesOfTenant,
    moves: readonly Move[],
  ): void {
    const { settings } = this.#known.tenant(tenant);
    for (const { runId, before, after } of moves) {
      const held = before?.held ?? [];
      const taken = (after?.held ?? []).filter((gate) => !held.includes(gate));
      if (taken.length === 0) continue;
      mustHold(
        settings.stopped !== true,
        "INV-31",
        () => `${name} gave ${runId} a place in ${taken.join()} of ${tenant}, which is stopped`,
      );
      for (const gate of taken) {
        const limit = this.#limitOf(tenant, gate);
        const active = this.#activeAt(tenant, runs, gate);
        mustHold(
          limit === undefined || active <= limit,
          "INV-31",
          () => `${name} gave ${runId} place ${active} in ${gate} of ${tenant}, whose limit is ${limit}`,
        );
      }
    }
  }

  /** INV-32: what nobody hands on now is found by the sweep. */
  #checkFreePlaces({ name }: StoreExecution, tenant: TenantId, runs: GatesOfTenant): void {
    if (this.#known.tenant(tenant).settings.stopped === true) return;
    const waiting = new Map<GateId, RunId>();
    for (const [runId, { waiting: at }] of runs) if (at !== undefined) waiting.set(at.gate, runId);
    for (const [gate, runId] of waiting) {
      const limit = this.#limitOf(tenant, gate);
      const active = this.#activeAt(tenant, runs, gate);
      if (limit !== undefined && active >= limit) continue;
      mustHold(
        this.#indexes.isInAttention(tenant, gate),
        "INV-32",
        () =>
          `${name} left ${runId} waiting at ${gate} of ${tenant} with ${active} of ${limit} places taken, and nobody would look`,
      );
      this.#marks.hit("gate_left_to_the_sweep");
    }
  }

  /** INV-37: of runs that wait for each other none would ever go on; those that wait for one that is active will. */
  #checkDeadlock({ name }: StoreExecution, tenant: TenantId, runs: GatesOfTenant): void {
    const stuck = new Map([...runs].filter(([, { waiting }]) => waiting !== undefined));
    for (let before = -1; before !== stuck.size; ) {
      before = stuck.size;
      for (const [runId, { waiting }] of stuck) {
        const gate = waiting?.gate as GateId;
        const limit = this.#limitOf(tenant, gate);
        const holders = [...runs].filter(([, { held }]) => held.includes(gate));
        const phantoms = gate === tenantGate ? this.#known.tenant(tenant).phantoms.size : 0;
        const goesOn = holders.some(([holder]) => !stuck.has(holder)) || phantoms > 0;
        if (limit === undefined || holders.length < limit || goesOn) stuck.delete(runId);
      }
    }
    mustHold(
      stuck.size === 0,
      "INV-37",
      () => `${name} left ${[...stuck.keys()].join(", ")} waiting for each other's places`,
    );
  }

  #activeAt(tenant: TenantId, runs: GatesOfTenant, gate: GateId): number {
    let active = gate === tenantGate ? this.#known.tenant(tenant).phantoms.size : 0;
    for (const { held } of runs.values()) if (held.includes(gate)) active += 1;
    return active;
  }

  #limitOf(tenant: TenantId, gate: GateId): number | undefined {
    const place = limitPlaceOf(gate);
    if (place.kind !== "workflow") return settingsLimit(this.#known.tenant(tenant).settings, place);
    return this.#records.get("document", `${tenant}/workflow`, place.workflow)?.limits?.[place.spec];
  }

  #noteWoken(runId: RunId, before: StoredRun | undefined, after: StoredRun | undefined): void {
    if (before?.status === "queued" && after?.status === "pending") this.#woken.add(runId);
    else if (after === undefined || after.version > (before?.version ?? 0)) this.#woken.delete(runId);
  }

  /** The process that had freed the place did not come to it. */
  #noteFound({ outcome }: StoreExecution): void {
    if (outcome.kind !== "swept") return;
    for (const { runId } of outcome.waiting) {
      if (this.#woken.delete(runId)) this.#marks.hit("granted_run_found_by_sweep");
    }
  }

  #count({ name, request }: StoreExecution, tenant: TenantId, moves: readonly Move[]): void {
    for (const { before, after, state } of moves) {
      const status = state?.status;
      if (before === undefined && after?.waiting !== undefined) this.#marks.hit("run_queued");
      if (before?.waiting === undefined) continue;
      if (after !== undefined && after.waiting === undefined) this.#marks.hit("queued_run_admitted");
      if (after?.waiting !== undefined && after.held.length > before.held.length)
        this.#marks.hit("queued_at_the_next_gate");
      if (status === "timed_out") this.#marks.hit("queue_deadline_passed");
      if (status === "cancelled" && state?.endReason?.startsWith("superseded_by "))
        this.#marks.hit("queued_run_superseded");
      else if (status === "cancelled") this.#marks.hit("queued_run_cancelled");
    }
    if (name === "handOn" && moves.length > 0) this.#marks.hit("handed_on_later");
    if (name === "setTenant" && request.tenant === tenant) this.#countLowered(tenant);
  }

  #countLowered(tenant: TenantId): void {
    const runs = this.#tenants.get(tenant) ?? new Map<RunId, GatePosition>();
    for (const [name, { max }] of Object.entries(this.#known.tenant(tenant).settings.gates ?? {})) {
      if (this.#activeAt(tenant, runs, `named.${name}` as GateId) > max)
        this.#marks.hit("gate_lowered_below_use");
    }
  }
}

/** INV-33: what a run says of itself fits together. */
function checkRun({ name }: StoreExecution, state: StoredRun): void {
  const { runId, status, gates } = state;
  if (gates === undefined || state.deleted) {
    mustHold(status !== "queued", "INV-33", () => `${name} let ${runId} wait, which has no gates`);
    return;
  }
  const ids = gates.gates.map(({ gate }) => gate);
  const { waits, held, startsAtMs } = gates;
  const inOrder = ids.every((gate, index) => index === 0 || (ids[index - 1] as GateId) < gate);
  mustHold(
    inOrder && ids.at(-1) === tenantGate,
    "INV-33",
    () => `${name} made ${runId} take its places in the order ${ids.join()}`,
  );
  const what = () => `${name} left ${runId} ${status}, with ${held} of ${ids.length} places`;
  const waitsAtGate = waits !== undefined;
  const waitsForRate = startsAtMs !== undefined;
  if (isTerminal(status)) mustHold(held === 0 && !waitsAtGate && !waitsForRate, "INV-33", what);
  else if (status !== "queued")
    mustHold(!waitsAtGate && !waitsForRate && held === ids.length, "INV-33", what);
  else if (waitsForRate) mustHold(!waitsAtGate && held === 0, "INV-33", what);
  else mustHold(waitsAtGate && held < ids.length, "INV-33", what);
}

function tenantOf(change: Change): TenantId | undefined {
  if (kindsOfGates.has(change.kind)) return change.scope.split("/")[0] as TenantId;
  const isWorkflow = change.kind === "document" && change.scope.endsWith("/workflow");
  if (isWorkflow) return change.scope.split("/")[0] as TenantId;
  // What becomes due at a gate or for a run that waits.
  const [, kind, tenant] = change.kind === "due" ? change.member.split(" ") : [];
  return kind === "gate" || kind === "gates" || kind === "queued" || kind === "rated"
    ? (tenant as TenantId)
    : undefined;
}
