// What a conformance check gets to work with: a store, tenants of its own, and requests with sensible defaults.
import assert from "node:assert/strict";
import type { Fence, Guard, LockName, LockToken } from "../../domain/lock.ts";
import { digestOf, type Fingerprint } from "../../domain/reservation.ts";
import { makeRunId, type RunId } from "../../domain/run.ts";
import type { TenantId, TenantSettings } from "../../domain/tenant.ts";
import type { Clock } from "../../ports/clock.ts";
import type { CallOptions, KeyRequest, NewRun, Store } from "../../ports/store.ts";

/** One check of a port: every adapter must pass it. `check` throws when the adapter does not conform. */
export type ConformanceCase = { readonly name: string; check(harness: Harness): Promise<void> };

export const call: CallOptions = { deadlineMs: 5_000 };

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

  /** A second tenant beside the first. */
  otherTenant(): TenantId {
    return `other-${this.#unique}` as TenantId;
  }

  token(): LockToken {
    this.#counter += 1;
    return `token${this.#counter}${this.#unique}` as LockToken;
  }

  runId(): RunId {
    this.#counter += 1;
    return makeRunId(this.tenant, `${String(this.#counter).padStart(8, "0")}${this.#unique}`);
  }

  newRun(options: { readonly key?: KeyRequest; readonly records?: NewRun["records"] } = {}): NewRun {
    const { key, records = [{ key: "input/run", body: "{}" }] } = options;
    const run = { runId: this.runId(), workflow: "deploy", actor: "tester", records };
    return key === undefined ? run : { ...run, key };
  }

  async acquire(lock: LockName, ttlMs: number, token = this.token()): Promise<Guard> {
    const { store, tenant } = this;
    const answer = await store.acquireLock({ tenant, lock, token, instance: "host:1", ttlMs }, call);
    assert.equal(answer.kind, "acquired");
    const fence = (answer as { fence: Fence }).fence;
    return { lock, token, fence, policy: "fence", ttlMs };
  }

  async admit(run: NewRun = this.newRun()): Promise<RunId> {
    const answer = await this.store.admit({ tenant: this.tenant, run }, call);
    assert.equal(answer.kind, "admitted");
    return run.runId;
  }

  /** Ends a run under a fresh grant of its run lock, which is given back. */
  async end(runId: RunId): Promise<void> {
    const { store, tenant } = this;
    const guard = await this.acquire({ namespace: "run", name: runId }, 10_000);
    const answer = await store.endRun({ tenant, guard, runId, status: "succeeded", actor: "tester" }, call);
    assert.equal(answer.kind, "ended");
    await store.releaseLock({ tenant, lock: guard.lock, token: guard.token }, call);
  }

  async set(settings: TenantSettings, tenant = this.tenant): Promise<void> {
    const current = await this.store.getTenant({ tenant }, call);
    assert.equal(current.kind, "tenant");
    const expectedVersion = (current as { record: { version: number } }).record.version;
    const request = { tenant, settings, expectedVersion, changeId: this.token(), actor: "tester" };
    assert.equal((await this.store.setTenant(request, call)).kind, "saved");
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

/** Compares outcomes without the store's time, which is checked on its own. */
export function assertOutcome(answer: object, expected: object): void {
  const { storeTimeMs: _time, ...outcome } = answer as { storeTimeMs?: number };
  assert.deepEqual(outcome, expected);
}
