// What is given back is given back by its owner and once: slots and places (INV-4); a parked run keeps its one slot (INV-28).
import { orderedNumber, type StoredRun } from "../../../src/adapters/operations/records.ts";
import { isTerminal, type RunId } from "../../../src/domain/run.ts";
import type { TenantId } from "../../../src/domain/tenant.ts";
import type { StoreExecution } from "../../../src/testing/simulated-store.ts";
import { mustHold } from "../invariants/violation.ts";
import type { Change, ChangeOf } from "./journaled-records.ts";
import type { KnownState } from "./known-state.ts";

export class ReleaseChecks {
  readonly #known: KnownState;

  constructor(known: KnownState) {
    this.#known = known;
  }

  /** To be called before anything is learnt from the changes: what the checks know is how it was before. */
  judge(execution: StoreExecution, changes: readonly Change[]): void {
    for (const change of changes) {
      if (change.kind === "active" && change.after === undefined) this.#judgeSlot(execution, change, changes);
      else if (change.kind === "active") this.#judgeNewSlot(execution, change);
      else if (change.kind === "running" && change.after === undefined)
        judgePlace(execution, change, changes);
    }
  }

  /** A slot goes with the end of its own run, in the operation that names the run; the sweep frees what belongs to nobody. */
  #judgeSlot(execution: StoreExecution, { scope, member }: ChangeOf<"active">, changes: readonly Change[]) {
    const { name, request, records } = execution;
    const runId = member.slice(17) as RunId;
    const run = records.get("run", scope, runId);
    if (name === "sweep") {
      const orphaned = run === undefined || run.deleted === true || isTerminal(run.status);
      mustHold(orphaned, "INV-4", () => `sweep freed the slot of ${runId}, which is ${run?.status}`);
      return;
    }
    const named = "runId" in request && request.runId === runId;
    const ended = changes.some(
      (change) =>
        change.kind === "run" && change.member === runId && isOpen(change.before) && !isOpen(change.after),
    );
    // It waits, has asked for that, and the change says that nothing else goes on in it.
    const givesBack = run?.gates?.releases === true && run.gates.released === true && saysIdle(execution);
    if (named && (ended || givesBack)) return;
    const parked = run?.status === "waiting";
    mustHold(
      false,
      parked ? "INV-28" : "INV-4",
      () => `${name} freed the slot of ${runId}, which is ${run?.status} and was not ended by it`,
    );
  }

  /** One slot for a whole tree of runs, from its admission to its end, however often it is parked and goes on. */
  #judgeNewSlot({ name, records }: StoreExecution, { scope, member, before }: ChangeOf<"active">): void {
    if (before !== undefined) return;
    const runId = member.slice(17) as RunId;
    const run = records.get("run", scope, runId);
    mustHold(
      run?.parent === undefined,
      "INV-28",
      () => `${name} gave ${runId} a slot of its own, although it belongs to ${run?.parent?.root}`,
    );
    const { active } = this.#known.tenant(scope as TenantId);
    mustHold(!active.has(runId), "INV-28", () => `${name} gave ${runId} a second slot`);
    const own = run === undefined || member === `${orderedNumber(run.admittedAtMs)} ${runId}`;
    mustHold(own, "INV-4", () => `${name} gave ${runId} the slot ${member}, which its end would not free`);
  }
}

/** A place goes with the claim that took it: reported under its own token, run out, or called off by its run. */
function judgePlace(
  { name, request, storeTimeMs }: StoreExecution,
  { scope, member }: ChangeOf<"running">,
  changes: readonly Change[],
): void {
  const job = changes.find(
    (change): change is ChangeOf<"job"> => change.kind === "job" && change.member === member,
  );
  const claim = job?.before?.state === "claimed" ? job.before.claim : undefined;
  const left = claim !== undefined && job?.after?.state !== "claimed";
  const entry = name === "deliver" ? request.entry : undefined;
  const reported = entry?.kind === "result" && entry.jobId === member && entry.token === claim?.token;
  const ranOut = name === "sweep" && (claim?.expiresAtMs ?? Number.POSITIVE_INFINITY) <= storeTimeMs;
  const ofItsRun = "runId" in request && request.runId === job?.before?.runId;
  const calledOff = ofItsRun && job?.after?.state === "voided";
  mustHold(
    left && (reported || ranOut || calledOff),
    "INV-4",
    () =>
      `${name} freed the place of ${member} in ${scope}, whose claim is ${job?.after?.state ?? "untouched"}`,
  );
}

function isOpen(run: StoredRun | undefined): boolean {
  return run !== undefined && !isTerminal(run.status);
}

function saysIdle({ request }: StoreExecution): boolean {
  const { change } = "change" in request ? request : ("proposal" in request && request.proposal) || {};
  return change?.idle === true;
}
