// Compares the store's answers with what is left after a loss, and follows requests whose caller is gone.
import { parseJobId } from "../../../src/domain/job.ts";
import type { LockName } from "../../../src/domain/lock.ts";
import type { TenantId } from "../../../src/domain/tenant.ts";
import type { Answer, OperationName } from "../../../src/ports/store.ts";
import type { StoreCall, StoreExecution } from "../../../src/testing/simulated-store.ts";
import type { Marks } from "../invariants/marks.ts";
import type { Acknowledged } from "./acknowledged.ts";
import type { DurableEntry } from "./durable-stream.ts";
import { mayHaveEffect } from "./effects.ts";
import type { GrantChecks } from "./grant-checks.ts";
import type { JournaledRecords } from "./journaled-records.ts";
import { type KnownState, tenantOf } from "./known-state.ts";

type Parts = {
  readonly known: KnownState;
  readonly records: JournaledRecords;
  readonly grants: GrantChecks;
  readonly marks: Marks;
  readonly acknowledged: Acknowledged;
};

type CallOf<Name extends OperationName> = Extract<StoreCall, { readonly name: Name }>;

export class LossChecks {
  readonly #parts: Parts;
  /** Requests whose effect was lost. */
  readonly #lost = new WeakSet<object>();
  readonly #lastChange = new Map<TenantId, { readonly caller: string; readonly atMs: number }>();

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  observe(execution: StoreExecution, atMs: number): void {
    const tenant = tenantOf(execution.request);
    if (tenant === undefined || !mayHaveEffect(execution)) return;
    this.#lastChange.set(tenant, { caller: execution.caller, atMs });
  }

  /** Its caller is gone, and somebody else has changed something meanwhile. */
  observeGhost({ request, caller }: StoreCall, sentAtMs: number): void {
    const last = this.#lastChange.get(tenantOf(request) ?? ("" as TenantId));
    if (last === undefined || last.caller === caller || last.atMs <= sentAtMs) return;
    this.#parts.marks.hit("ghost_arrived");
  }

  observeAnswer(call: StoreCall, answer: Answer<OperationName>): void {
    if (answer.kind === "unknown") {
      if (this.#lost.has(call.request)) this.#parts.marks.hit("unknown_lost_by_failover");
      return;
    }
    if (call.name === "setTenant") this.#toldSettings(call, answer as Answer<"setTenant">);
    if (call.name === "claimJobs") this.#toldClaims(call, answer as Answer<"claimJobs">);
    if (call.name === "deleteRun") this.#toldDeletion(call, answer as Answer<"deleteRun">);
    if (call.name === "acquireLock") this.#toldGrant(call, answer as Answer<"acquireLock">);
  }

  /** To be called when the other checks stand on what is left. */
  afterLoss(lost: readonly DurableEntry[]): void {
    for (const { execution } of lost) this.#lost.add(execution.request);
    this.#parts.acknowledged.afterLoss(lost);
  }

  #toldSettings({ request, caller }: CallOf<"setTenant">, answer: Answer<"setTenant">): void {
    if (answer.kind !== "saved") return;
    const { known, acknowledged } = this.#parts;
    acknowledged.record({
      invariant: "INV-18",
      what: `${caller} was told that version ${answer.version} of ${request.tenant} is saved`,
      holds: () => known.tenant(request.tenant).version >= answer.version,
    });
  }

  /** INV-21: a worker has begun; nobody may be given the same attempt again. */
  #toldClaims({ request, caller }: CallOf<"claimJobs">, answer: Answer<"claimJobs">): void {
    if (answer.kind !== "judged") return;
    const { acknowledged, records, known } = this.#parts;
    for (const [index, { jobId }] of request.claims.entries()) {
      const runId = parseJobId(jobId)?.runId;
      if (answer.answers[index]?.kind !== "claimed" || runId === undefined) continue;
      const isClaimed = () => {
        const state = records.get("job", `${request.tenant}/${runId}`, jobId)?.state;
        return state !== undefined && state !== "ready" && state !== "held";
      };
      acknowledged.record({
        invariant: "INV-21",
        what: `${caller} was given ${jobId}`,
        holds: () => isClaimed() || known.run(runId)?.removed === true,
      });
    }
  }

  #toldDeletion({ request, caller }: CallOf<"deleteRun">, answer: Answer<"deleteRun">): void {
    if (answer.kind !== "deleted") return;
    const { acknowledged, known } = this.#parts;
    acknowledged.record({
      invariant: "INV-18",
      what: `${caller} was told that ${request.runId} is deleted`,
      holds: () => known.run(request.runId)?.removed !== false,
    });
  }

  /** An agent acts on a public lock where we do not see it. */
  #toldGrant({ request, caller }: CallOf<"acquireLock">, answer: Answer<"acquireLock">): void {
    const { tenant, lock } = request;
    if (answer.kind !== "acquired" || !isPublic(lock)) return;
    const { fence } = answer;
    this.#parts.acknowledged.record({
      invariant: "INV-12",
      what: `${caller} was granted ${lock.namespace}/${lock.name} with fence ${fence}`,
      holds: () => this.#parts.grants.hasGranted(tenant, fence),
    });
  }
}

export function isPublic({ namespace }: LockName): boolean {
  return namespace === "public";
}
