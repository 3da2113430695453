// What every store must do at the quotas of a tenant. For a store with three runs, three locks, two tickets and two keys.
import assert from "node:assert/strict";
import { admissionLock, type LockName, type LockToken } from "../../domain/lock.ts";
import type { Collection, TenantId } from "../../domain/tenant.ts";
import { assertOutcome, type ConformanceCase, call, type Harness, key, only } from "./harness.ts";

const named = (name: string): LockName => ({ namespace: "public", name });

type Ask = {
  readonly tenant?: TenantId;
  readonly token?: LockToken;
  readonly ttlMs?: number;
  readonly ticketMs?: number;
};

function ask(harness: Harness, name: string, options: Ask = {}) {
  const { tenant = harness.tenant, token = harness.token(), ttlMs = 60_000, ticketMs } = options;
  const request = { tenant, lock: named(name), token, instance: "host:1", ttlMs };
  return harness.store.acquireLock(ticketMs === undefined ? request : { ...request, ticketMs }, call);
}

async function hold(harness: Harness, names: readonly string[]): Promise<readonly LockToken[]> {
  const tokens: LockToken[] = [];
  for (const name of names) {
    const token = harness.token();
    assert.equal((await ask(harness, name, { token })).kind, "acquired");
    tokens.push(token);
  }
  return tokens;
}

const runQuotaCases: readonly ConformanceCase[] = [
  {
    name: "a tenant without a limit starts no more runs than its quota, another tenant's runs do not count",
    async check(harness) {
      const { store, tenant } = harness;
      const runs = [await harness.admit(), await harness.admit(), await harness.admit()];
      const run = harness.newRun();
      assertOutcome(await store.admit({ tenant, run }, call), {
        kind: "quota_reached",
        quota: "active_runs",
        limit: 3,
      });
      assertOutcome(await store.loadRun({ tenant, runId: run.runId }, call), { kind: "not_found" });
      const other = { ...harness.newRun(), runId: run.runId };
      const otherTenant = harness.otherTenant();
      assert.equal((await store.admit({ tenant: otherTenant, run: other }, call)).kind, "admitted");
      await harness.end(runs[1] as (typeof runs)[0]);
      await harness.admit(run);
    },
  },
  {
    name: "at the quota of runs a start that was admitted is told so again, and a known key replays",
    async check(harness) {
      const { store, tenant } = harness;
      const first = harness.newRun({ key: key("a") });
      for (const run of [first, harness.newRun(), harness.newRun()]) await harness.admit(run);
      assert.equal((await store.admit({ tenant, run: first }, call)).kind, "admitted");
      const replay = await store.admit({ tenant, run: harness.newRun({ key: key("a") }) }, call);
      assertOutcome(replay, { kind: "replayed", runId: first.runId, status: "pending" });
    },
  },
  {
    name: "the quota of runs holds under the lock strategy, too",
    async check(harness) {
      const { store, tenant } = harness;
      for (let count = 0; count < 3; count += 1) await harness.admit();
      const guard = await harness.acquire(admissionLock, 10_000);
      const refused = await store.createRun({ tenant, guard, run: harness.newRun() }, call);
      assertOutcome(refused, { kind: "quota_reached", quota: "active_runs", limit: 3 });
    },
  },
  {
    name: "a tenant's own quota counts instead, and one lowered below the present use refuses what is new alone",
    async check(harness) {
      const { store, tenant } = harness;
      await harness.set({ quotas: { active_runs: 4 } });
      const runs = [];
      for (let count = 0; count < 4; count += 1) runs.push(await harness.admit());
      await harness.set({ quotas: { active_runs: 1 } });
      const run = harness.newRun();
      assertOutcome(await store.admit({ tenant, run }, call), {
        kind: "quota_reached",
        quota: "active_runs",
        limit: 1,
      });
      for (const runId of runs) await harness.end(runId);
      await harness.admit(run);
      await harness.set({ quotas: { active_runs: 0 } });
      const none = await store.admit({ tenant, run: harness.newRun() }, call);
      assertOutcome(none, { kind: "quota_reached", quota: "active_runs", limit: 0 });
    },
  },
  {
    name: "fifty starts at once with room for one admit exactly one",
    async check(harness) {
      const { store, tenant } = harness;
      await harness.admit();
      await harness.admit();
      const starts = Array.from({ length: 50 }, () => store.admit({ tenant, run: harness.newRun() }, call));
      const kinds = (await Promise.all(starts)).map(({ kind }) => kind);
      assert.equal(kinds.filter((kind) => kind === "admitted").length, 1);
      assert.equal(kinds.filter((kind) => kind === "quota_reached").length, 49);
    },
  },
];

const lockQuotaCases: readonly ConformanceCase[] = [
  {
    name: "a tenant holds no more public locks than its quota, another tenant's locks do not count",
    async check(harness) {
      const [first] = await hold(harness, ["a", "b", "c"]);
      assertOutcome(await ask(harness, "d"), { kind: "lock_quota_reached", quota: 3 });
      assertOutcome(await ask(harness, "d", { ticketMs: 1_000 }), { kind: "lock_quota_reached", quota: 3 });
      const free = await harness.store.inspectLock({ tenant: harness.tenant, lock: named("d") }, call);
      assertOutcome(free, { kind: "free" });
      assert.equal((await ask(harness, "d", { tenant: harness.otherTenant() })).kind, "acquired");
      await harness.release({ lock: named("a"), token: first as LockToken });
      assert.equal((await ask(harness, "d")).kind, "acquired");
      assertOutcome(await ask(harness, "a"), { kind: "lock_quota_reached", quota: 3 });
    },
  },
  {
    name: "at the quota of locks those that are held are told of, renewed and handed on",
    async check(harness) {
      const { store, tenant } = harness;
      const [token] = (await hold(harness, ["a", "b", "c"])) as [LockToken];
      const lock = named("a");
      assert.equal((await ask(harness, "a", { token })).kind, "acquired");
      const renewed = await store.renewLock({ tenant, lock, token, ttlMs: 60_000 }, call);
      assert.equal(renewed.kind, "renewed");
      const heir = harness.token();
      assert.equal((await ask(harness, "a", { token: heir, ticketMs: 10_000 })).kind, "busy");
      const released = only(await store.releaseLock({ tenant, lock, token }, call), "released");
      assert.equal(released.granted?.token, heir);
      assertOutcome(await ask(harness, "d"), { kind: "lock_quota_reached", quota: 3 });
    },
  },
  {
    name: "a lock that expired leaves its place in the quota, one that was renewed does not",
    async check(harness) {
      const { store, tenant } = harness;
      const token = harness.token();
      await hold(harness, ["a"]);
      assert.equal((await ask(harness, "b", { ttlMs: 40 })).kind, "acquired");
      assert.equal((await ask(harness, "c", { token, ttlMs: 1_000 })).kind, "acquired");
      const renewed = await store.renewLock({ tenant, lock: named("c"), token, ttlMs: 60_000 }, call);
      assert.equal(renewed.kind, "renewed");
      await harness.untilAfter((await harness.now()) + 1_000);
      await harness.until(async () => (await ask(harness, "d")).kind === "acquired");
      assertOutcome(await ask(harness, "e"), { kind: "lock_quota_reached", quota: 3 });
    },
  },
  {
    name: "a lock that was broken leaves its place in the quota",
    async check(harness) {
      const { store, tenant } = harness;
      await hold(harness, ["a", "b"]);
      const { fence } = await harness.acquire(named("c"), 60_000);
      const broken = { tenant, lock: named("c"), fence, actor: "tester", reason: "stuck" };
      assert.equal((await store.breakLock(broken, call)).kind, "broken");
      assert.equal((await ask(harness, "d")).kind, "acquired");
    },
  },
  {
    name: "the control plane's own locks do not count, and are granted at any quota",
    async check(harness) {
      await harness.set({ quotas: { locks: 0, lock_tickets: 0 } });
      for (const namespace of ["job", "approval", "run", "admission"] as const) {
        await harness.acquire({ namespace, name: "a" }, 60_000);
      }
      assertOutcome(await ask(harness, "a"), { kind: "lock_quota_reached", quota: 0 });
      await harness.set({ quotas: { locks: 1 } });
      assert.equal((await ask(harness, "a")).kind, "acquired");
    },
  },
  {
    name: "fifty locks asked for at once with room for one are granted once",
    async check(harness) {
      await hold(harness, ["a", "b"]);
      const asks = Array.from({ length: 50 }, (_, index) => ask(harness, `n${index}`));
      const kinds = (await Promise.all(asks)).map(({ kind }) => kind);
      assert.equal(kinds.filter((kind) => kind === "acquired").length, 1);
      assert.equal(kinds.filter((kind) => kind === "lock_quota_reached").length, 49);
    },
  },
];

const ticketQuotaCases: readonly ConformanceCase[] = [
  {
    name: "no more tickets wait for a tenant's locks than its quota; those that do keep their places",
    async check(harness) {
      const [a] = (await hold(harness, ["a", "b"])) as [LockToken];
      const first = harness.token();
      const ticketMs = 10_000;
      const lock = named("a");
      assert.equal((await ask(harness, "a", { token: first, ticketMs })).kind, "busy");
      assert.equal((await ask(harness, "b", { ticketMs })).kind, "busy");
      const refused = { kind: "ticket_quota_reached", quota: 2 } as const;
      assertOutcome(await ask(harness, "a", { ticketMs }), refused);
      assertOutcome(await ask(harness, "b", { ticketMs }), refused);
      assert.equal(only(await ask(harness, "a", { token: first, ticketMs }), "busy").ahead, 0);
      assert.equal((await ask(harness, "a")).kind, "busy");
      await harness.release({ lock, token: a });
      assert.equal((await ask(harness, "a", { ticketMs })).kind, "busy");
      await harness.release({ lock, token: first });
    },
  },
  {
    name: "a ticket that was given back or lapsed leaves its place in the quota",
    async check(harness) {
      await hold(harness, ["a"]);
      const leaving = harness.token();
      assert.equal((await ask(harness, "a", { token: leaving, ticketMs: 10_000 })).kind, "busy");
      assert.equal((await ask(harness, "a", { ticketMs: 50 })).kind, "busy");
      await harness.release({ lock: named("a"), token: leaving });
      assert.equal((await ask(harness, "a", { ticketMs: 10_000 })).kind, "busy");
      await harness.until(async () => (await ask(harness, "a", { ticketMs: 10_000 })).kind === "busy");
      assertOutcome(await ask(harness, "a", { ticketMs: 10_000 }), {
        kind: "ticket_quota_reached",
        quota: 2,
      });
    },
  },
];

async function save(harness: Harness, collection: Collection, id: string, tenant = harness.tenant) {
  const request = { tenant, collection, id, body: harness.id("body"), changeId: harness.id("change") };
  return harness.store.putDocument({ ...request, actor: "tester" }, call);
}

const documentQuotaCases: readonly ConformanceCase[] = [
  {
    name: "no more documents are added than the quota of their collection, and those that exist are replaced",
    async check(harness) {
      const { store, tenant } = harness;
      for (const [collection, quota] of [
        ["apiKey", 2],
        ["workflow", 2],
        ["definition", 3],
      ] as const) {
        for (let count = 0; count < quota; count += 1) {
          assert.equal((await save(harness, collection, `d${count}`)).kind, "saved");
        }
        assertOutcome(await save(harness, collection, "new"), { kind: "quota_reached", quota });
        const missing = await store.getDocument({ tenant, collection, id: "new" }, call);
        assertOutcome(missing, { kind: "not_found" });
        assertOutcome(await save(harness, collection, "d0"), { kind: "saved", revision: 2 });
        assert.equal((await save(harness, collection, "new", harness.otherTenant())).kind, "saved");
        await store.removeDocument({ tenant, collection, id: "d1", actor: "tester" }, call);
        assert.equal((await save(harness, collection, "new")).kind, "saved");
      }
    },
  },
  {
    name: "a save that was made is told again at the quota, and other collections have none",
    async check(harness) {
      const { store, tenant } = harness;
      const made = { tenant, collection: "apiKey", id: "a", body: "1", changeId: "c", actor: "t" } as const;
      assert.equal((await store.putDocument(made, call)).kind, "saved");
      assert.equal((await save(harness, "apiKey", "b")).kind, "saved");
      assertOutcome(await store.putDocument(made, call), { kind: "saved", revision: 1 });
      for (const id of ["1", "2", "3", "4"]) assert.equal((await save(harness, "canary", id)).kind, "saved");
    },
  },
  {
    name: "fifty keys made at once with room for one are made once, by the tenant's own quota",
    async check(harness) {
      await harness.set({ quotas: { api_keys: 1 } });
      const saves = Array.from({ length: 50 }, (_, index) => save(harness, "apiKey", `k${index}`));
      const kinds = (await Promise.all(saves)).map(({ kind }) => kind);
      assert.equal(kinds.filter((kind) => kind === "saved").length, 1);
      assert.equal(kinds.filter((kind) => kind === "quota_reached").length, 49);
    },
  },
  {
    name: "what a tenant has of everything with a quota is counted",
    async check(harness) {
      const { store, tenant } = harness;
      const none = { api_keys: 0, workflows: 0, definitions: 0, active_runs: 0 };
      const nothing = { ...none, idempotency_keys: 0, locks: 0, lock_tickets: 0 };
      assertOutcome(await store.countUsage({ tenant }, call), { kind: "counted", used: nothing });
      await save(harness, "apiKey", "a");
      for (const id of ["a", "b"]) await save(harness, "definition", id);
      await harness.admit(harness.newRun({ key: key("k") }));
      const [, b] = (await hold(harness, ["a", "b"])) as [LockToken, LockToken];
      await ask(harness, "a", { ticketMs: 10_000 });
      await harness.release({ lock: named("b"), token: b });
      const some = { ...nothing, api_keys: 1, definitions: 2, active_runs: 1, idempotency_keys: 1 };
      const used = { ...some, locks: 1, lock_tickets: 1 };
      assertOutcome(await store.countUsage({ tenant }, call), { kind: "counted", used });
      assertOutcome(await store.countUsage({ tenant: harness.otherTenant() }, call), {
        kind: "counted",
        used: nothing,
      });
    },
  },
];

export const quotaCases: readonly ConformanceCase[] = [
  ...documentQuotaCases,
  ...runQuotaCases,
  ...lockQuotaCases,
  ...ticketQuotaCases,
];
