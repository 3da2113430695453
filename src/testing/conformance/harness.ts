// What a conformance check gets to work with: a store, tenants of its own, and requests with sensible defaults.
import assert from "node:assert/strict";
import { digestOf, type Fingerprint } from "../../domain/fingerprint.ts";
import type { ClaimTerms, ClaimToken } from "../../domain/job.ts";
import type { Fence, Guard, LockName, LockToken } from "../../domain/lock.ts";
import {
  makeRunId,
  type RunChange,
  type RunId,
  type RunRecord,
  type TerminalStatus,
  unchanged,
} from "../../domain/run.ts";
import { type Partition, partitionOf, type TenantId, type TenantSettings } from "../../domain/tenant.ts";
import type { KeyRequest, NewRun } from "../../ports/admission-operations.ts";
import type { Clock } from "../../ports/ports.ts";
import type { TakeTerms } from "../../ports/run-operations.ts";
import type { CallOptions, Store, StoreSettings } from "../../ports/store.ts";

/** One check of a port: every adapter must pass it. `check` throws when the adapter does not conform. */
export type ConformanceCase = { readonly name: string; check(harness: Harness): Promise<void> };

/** Cases for a store with these settings. They may share it, if each gets a tenant in a partition of its own. */
export type ConformanceSuite = {
  readonly name: string;
  readonly settings: StoreSettings;
  readonly cases: readonly ConformanceCase[];
};

export const call: CallOptions = { deadlineMs: 5_000 };

type NewRunOptions = {
  readonly key?: KeyRequest;
  readonly records?: readonly RunRecord[];
  /** The rest of the first commit. */
  readonly change?: Partial<RunChange>;
  readonly runId?: RunId;
} & Partial<
  Pick<NewRun, "workflow" | "revision" | "definition" | "start" | "actor" | "gates" | "rates" | "budgets">
>;

/** One store and one tenant that nobody else uses, so that checks can share a server. */
export class Harness {
  readonly store: Store;
  readonly tenant: TenantId;
  readonly #clock: Clock;
  readonly #unique: string;
  #counter = 0;

  /** `unique` keeps the checks apart: letters and digits, different for every check on one server. */
  constructor(store: Store, clock: Clock, unique: string) {
    this.store = store;
    this.#clock = clock;
    this.#unique = unique;
    this.tenant = `tenant-${unique}` as TenantId;
  }

  get partition(): Partition {
    return partitionOf(this.tenant);
  }

  /** A second tenant beside the first. */
  otherTenant(): TenantId {
    return `other-${this.#unique}` as TenantId;
  }

  token(): LockToken {
    return this.id("token") as LockToken;
  }

  /** A text that no other call gives. */
  id(what: string): string {
    this.#counter += 1;
    return `${what}${this.#counter}${this.#unique}`;
  }

  claim(leaseMs = 60_000): ClaimTerms {
    return { token: this.id("claim") as ClaimToken, worker: "worker-1", leaseMs };
  }

  take(ttlMs = 60_000): TakeTerms {
    return { token: this.token(), instance: "host:1", ttlMs };
  }

  runId(): RunId {
    this.#counter += 1;
    return makeRunId(this.tenant, `${String(this.#counter).padStart(8, "0")}${this.#unique}`);
  }

  newRun(options: NewRunOptions = {}): NewRun {
    const { key, records = [{ key: "input/run", body: "{}" }], change = {}, ...rest } = options;
    const run: NewRun = {
      runId: this.runId(),
      workflow: "deploy",
      definition: "sha256:1",
      actor: "tester",
      start: "applied",
      ...rest,
      change: { ...unchanged, status: "pending", timeline: "[]", records, ...change },
    };
    return key === undefined ? run : { ...run, key };
  }

  async acquire(lock: LockName, ttlMs: number, token = this.token()): Promise<Guard> {
    const { store, tenant } = this;
    const answer = await store.acquireLock({ tenant, lock, token, instance: "host:1", ttlMs }, call);
    assert.equal(answer.kind, "acquired");
    const fence = (answer as { fence: Fence }).fence;
    return { lock, token, fence, policy: "fence", ttlMs };
  }

  async release({ lock, token }: Pick<Guard, "lock" | "token">): Promise<void> {
    const answer = await this.store.releaseLock({ tenant: this.tenant, lock, token }, call);
    assert.equal(answer.kind, "released");
  }

  async admit(run: NewRun = this.newRun()): Promise<RunId> {
    const answer = await this.store.admit({ tenant: this.tenant, run }, call);
    assert.equal(answer.kind, "admitted");
    return run.runId;
  }

  /** One commit under a fresh grant of the run lock, which it gives back unless entries wait. Gives the new version. */
  async commit(runId: RunId, changes: Partial<RunChange> = {}): Promise<number> {
    const { store, tenant } = this;
    const guard = await this.acquire({ namespace: "run", name: runId }, 60_000);
    const loaded = await store.loadRun({ tenant, runId, records: [] }, call);
    const expectedVersion = only(loaded, "run").header.version;
    const change = { ...unchanged, status: "running", timeline: "[]", ...changes } as const;
    const commitId = this.id("commit");
    const request = { tenant, runId, guard, commitId, expectedVersion, consumed: 0, change };
    return only(await store.commit(request, call), "committed").version;
  }

  /** Ends a run by a commit. */
  async end(runId: RunId, status: TerminalStatus = "succeeded"): Promise<void> {
    await this.commit(runId, { status });
  }

  async set(settings: TenantSettings, tenant = this.tenant): Promise<void> {
    const current = await this.store.getTenant({ tenant }, call);
    const expectedVersion = only(current, "tenant").record.version;
    const request = { tenant, settings, expectedVersion, changeId: this.token(), actor: "tester" };
    assert.equal((await this.store.setTenant(request, call)).kind, "saved");
  }

  /** The store's time. */
  async now(): Promise<number> {
    return only(await this.store.getTenant({ tenant: this.tenant }, call), "tenant").storeTimeMs;
  }

  /** Waits until the store's time has passed a moment. */
  async untilAfter(atMs: number): Promise<void> {
    await this.until(async () => (await this.now()) > atMs);
  }

  /** Waits until a lock has expired, by asking the store. */
  async untilFree(lock: LockName): Promise<void> {
    await this.until(async () => {
      const answer = await this.store.inspectLock({ tenant: this.tenant, lock }, call);
      return answer.kind === "free";
    });
  }

  /** Asks again every few milliseconds until the condition holds, for at most five seconds. */
  async until(condition: () => Promise<boolean>): Promise<void> {
    const startedMs = this.#clock.monotonicMs();
    while (!(await condition())) {
      assert.ok(this.#clock.monotonicMs() - startedMs < 5_000, "the condition did not come true in 5 s");
      await this.#clock.sleep(5);
    }
  }
}

export function key(text: string, request = "first"): KeyRequest {
  return { digest: digestOf("start_run", text), fingerprint: `v1:${request}` as Fingerprint };
}

/** The answer, known to be of this kind. */
export function only<Found extends { readonly kind: string }, Kind extends Found["kind"]>(
  answer: Found,
  kind: Kind,
): Extract<Found, { readonly kind: Kind }> {
  assert.equal(answer.kind, kind, JSON.stringify(answer));
  return answer as Extract<Found, { readonly kind: Kind }>;
}

/** Compares outcomes without the store's time, which is checked on its own. */
export function assertOutcome(answer: object, expected: object): void {
  const { storeTimeMs: _time, ...outcome } = answer as { storeTimeMs?: number };
  assert.deepEqual(outcome, expected);
}
