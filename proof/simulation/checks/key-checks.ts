// Idempotency keys: one run each, bound as long as promised, given back only by their owner (INV-6, INV-7, INV-10).
import { isTerminal } from "../../../src/domain/run.ts";
import type { TenantId } from "../../../src/domain/tenant.ts";
import type { StoreSettings } from "../../../src/ports/store.ts";
import type { StoreExecution } from "../../../src/testing/simulated-store.ts";
import type { Marks } from "../invariants/marks.ts";
import { mustHold } from "../invariants/violation.ts";
import type { GrantChecks } from "./grant-checks.ts";
import type { ChangeOf, JournaledRecords } from "./journaled-records.ts";
import type { KnownState } from "./known-state.ts";

export class KeyChecks {
  readonly #known: KnownState;
  readonly #records: JournaledRecords;
  readonly #grants: GrantChecks;
  readonly #marks: Marks;
  readonly #settings: StoreSettings;

  constructor(
    known: KnownState,
    records: JournaledRecords,
    grants: GrantChecks,
    marks: Marks,
    settings: StoreSettings,
  ) {
    this.#known = known;
    this.#records = records;
    this.#grants = grants;
    this.#marks = marks;
    this.#settings = settings;
  }

  judge(execution: StoreExecution, change: ChangeOf<"reservation">): void {
    const { before, after, member } = change;
    const tenant = change.scope as TenantId;
    if (after?.state === "bound") this.#judgeBinding(execution, change);
    if (before === undefined || before.runId === after?.runId) return;
    if (before.state === "bound") {
      this.#judgeFreed(execution, change);
      return;
    }
    const { name, request, storeTimeMs } = execution;
    if (name === "cancelReservation") {
      const ours = before.runId === request.runId && before.token === request.token;
      mustHold(ours, "INV-7", () => `a reservation of ${before.runId} was given back for ${request.runId}`);
      return;
    }
    // Retention trims what is dead; at the quota the key that would end first gives way.
    const trimmed = after === undefined && (storeTimeMs > before.expiresAtMs || this.#isAtQuota(tenant));
    const holder = this.#grants.holderToken({ tenant, lock: { namespace: "admission", name: "" } });
    mustHold(
      trimmed || before.token !== holder,
      "INV-7",
      () => `${name} took key ${member} away from ${before.runId}, still being admitted`,
    );
    this.#marks.hit("dead_reservation_replaced");
  }

  /** INV-10: an expiry only after the run's end, and then as long as promised. */
  #judgeBinding({ name, storeTimeMs }: StoreExecution, change: ChangeOf<"reservation">): void {
    const { after, scope, member } = change;
    if (after?.state !== "bound") return;
    const run = this.#known.run(after.runId);
    mustHold(
      run?.tenant === scope,
      "INV-7",
      () => `a key of ${scope} was bound to ${after.runId}, which is not there`,
    );
    const taken = this.#known.runOfKey(scope as TenantId, member, storeTimeMs);
    mustHold(
      taken === undefined || taken.runId === after.runId,
      "INV-6",
      () => `${name} bound key ${member} to ${after.runId}, but it stands for ${taken?.runId}`,
    );
    const { boundKeys } = this.#known.tenant(scope as TenantId);
    const { expiresAtMs } = after;
    const { keyRetentionMs } = this.#settings;
    const promisedMs = keyRetentionMs === undefined ? undefined : storeTimeMs + keyRetentionMs;
    const ended = run !== undefined && isTerminal(run.status);
    mustHold(
      expiresAtMs === undefined || (ended && expiresAtMs === promisedMs),
      "INV-10",
      () => `${name} let the key of ${after.runId}, which is ${run?.status}, end at ${expiresAtMs}`,
    );
    boundKeys.set(member, { runId: after.runId, expiresAtMs });
  }

  /** A bound key is freed by its retention, or gives way to a new one at the quota, the first to end first. */
  #judgeFreed(
    { name, storeTimeMs }: StoreExecution,
    { before, member, scope }: ChangeOf<"reservation">,
  ): void {
    if (before?.state !== "bound") return;
    const { boundKeys } = this.#known.tenant(scope as TenantId);
    const { runId, expiresAtMs } = before;
    const expired = expiresAtMs !== undefined && storeTimeMs > expiresAtMs;
    const evicted = expiresAtMs !== undefined && this.#isAtQuota(scope as TenantId);
    mustHold(expired || evicted, "INV-10", () => `${name} took the key ${member} away from ${runId}`);
    // What was taken away without a reason is still promised.
    if (!expired && !evicted) return;
    if (!expired) this.#marks.hit("key_evicted");
    if (boundKeys.get(member)?.runId === runId) boundKeys.delete(member);
  }

  /** Asked after the operation, which put one in for the one that it took out. */
  #isAtQuota(tenant: TenantId): boolean {
    return this.#records.size("reservation", tenant) >= this.#settings.keysPerTenantMax;
  }
}
