// What every store must do to admit runs in one operation: limits, keys, replays, and repeatable calls.
import assert from "node:assert/strict";
import type { NewRun } from "../../ports/admission-operations.ts";
import { assertOutcome, type ConformanceCase, call, type Harness, key } from "./harness.ts";

function admit(harness: Harness, run: NewRun) {
  return harness.store.admit({ tenant: harness.tenant, run }, call);
}

function kinds(answers: ReadonlyArray<{ kind: string }>): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { kind } of answers) counts[kind] = (counts[kind] ?? 0) + 1;
  return counts;
}

async function active(harness: Harness): Promise<readonly string[]> {
  const answer = await harness.store.listActive({ tenant: harness.tenant, limit: 1_000 }, call);
  assert.equal(answer.kind, "listed");
  return (answer as { runIds: readonly string[] }).runIds;
}

export const admissionCases: readonly ConformanceCase[] = [
  {
    name: "an unlimited tenant admits, and the run exists with its records at once",
    async check(harness) {
      const bodies = ["[]", "{}", '{"n":12345678901234567890,"s":"ü\\u0000"}', "", "x".repeat(10_000)];
      const records = bodies.map((body, index) => ({ key: `step/${index}`, body }));
      const run = harness.newRun({ records });
      const status = "pending";
      const admitted = { kind: "admitted", runId: run.runId, status, active: 1, claims: [] };
      assertOutcome(await admit(harness, run), admitted);
      const loaded = await harness.store.loadRun({ tenant: harness.tenant, runId: run.runId }, call);
      assert.equal(loaded.kind, "run");
      const { header, records: found } = loaded as Extract<typeof loaded, { kind: "run" }>;
      assert.deepEqual(found, records);
      const { admittedAtMs, updatedAtMs, ...rest } = header;
      assert.deepEqual(rest, {
        runId: run.runId,
        tenant: harness.tenant,
        workflow: "deploy",
        definition: "sha256:1",
        status,
        version: 1,
        actor: "tester",
      });
      assert.equal(updatedAtMs, admittedAtMs);
      assert.ok(Math.abs(admittedAtMs - (loaded as { storeTimeMs: number }).storeTimeMs) < 60_000);
    },
  },
  {
    name: "limit 2 and 10 concurrent starts admit exactly 2 (seed 000)",
    async check(harness) {
      await harness.set({ maxConcurrentRuns: 2 });
      const answers = await Promise.all(Array.from({ length: 10 }, () => admit(harness, harness.newRun())));
      assert.deepEqual(kinds(answers), { admitted: 2, max_concurrent_runs_reached: 8 });
      for (const answer of answers.filter(({ kind }) => kind === "max_concurrent_runs_reached")) {
        assertOutcome(answer, { kind: "max_concurrent_runs_reached", limit: 2, active: 2 });
      }
      assert.equal((await active(harness)).length, 2);
    },
  },
  {
    name: "limit 2 and 1,000 concurrent starts admit exactly 2 (seed 000)",
    async check(harness) {
      await harness.set({ maxConcurrentRuns: 2 });
      const answers = await Promise.all(
        Array.from({ length: 1_000 }, () => admit(harness, harness.newRun())),
      );
      assert.deepEqual(kinds(answers), { admitted: 2, max_concurrent_runs_reached: 998 });
    },
  },
  {
    name: "a repeated admit of the same run gives the same answer and one run",
    async check(harness) {
      await harness.set({ maxConcurrentRuns: 1 });
      const run = harness.newRun({ key: key("k") });
      const first = await admit(harness, run);
      const second = await admit(harness, run);
      assert.equal(first.kind, "admitted");
      const { storeTimeMs: _first, ...expected } = first as { storeTimeMs: number };
      assertOutcome(second, expected);
      assert.deepEqual(await active(harness), [run.runId]);
    },
  },
  {
    name: "the same key and request replays the first run, also at the limit",
    async check(harness) {
      await harness.set({ maxConcurrentRuns: 1 });
      const runId = await harness.admit(harness.newRun({ key: key("k") }));
      const replay = await admit(harness, harness.newRun({ key: key("k") }));
      assertOutcome(replay, { kind: "replayed", runId, status: "pending" });
      assert.deepEqual(await active(harness), [runId]);
    },
  },
  {
    name: "ten concurrent starts with one key give one run (seed 002)",
    async check(harness) {
      const runs = Array.from({ length: 10 }, () => harness.newRun({ key: key("k") }));
      const answers = await Promise.all(runs.map((run) => admit(harness, run)));
      assert.deepEqual(kinds(answers), { admitted: 1, replayed: 9 });
      assert.equal(new Set(answers.map((answer) => (answer as { runId: string }).runId)).size, 1);
    },
  },
  {
    name: "the same key with another request is refused without effect",
    async check(harness) {
      await harness.admit(harness.newRun({ key: key("k", "first") }));
      const run = harness.newRun({ key: key("k", "second") });
      assertOutcome(await admit(harness, run), { kind: "idempotency_key_reused" });
      const loaded = await harness.store.loadRun({ tenant: harness.tenant, runId: run.runId }, call);
      assertOutcome(loaded, { kind: "not_found" });
    },
  },
  {
    name: "a start refused at the limit leaves its key free, and the same key succeeds later (seed 002)",
    async check(harness) {
      await harness.set({ maxConcurrentRuns: 1 });
      const blocking = await harness.admit();
      const run = harness.newRun({ key: key("retry-after-limit") });
      assert.equal((await admit(harness, run)).kind, "max_concurrent_runs_reached");
      const { digest } = key("retry-after-limit");
      const free = await harness.store.inspectReservation({ tenant: harness.tenant, digest }, call);
      assertOutcome(free, { kind: "idempotency_key_unbound" });
      await harness.end(blocking);
      const later = harness.newRun({ key: key("retry-after-limit") });
      assert.equal((await admit(harness, later)).kind, "admitted");
      const bound = await harness.store.inspectReservation({ tenant: harness.tenant, digest }, call);
      assertOutcome(bound, { kind: "bound", runId: later.runId });
    },
  },
  {
    name: "two tenants with the same key never see each other (seed 002)",
    async check(harness) {
      const runId = await harness.admit(harness.newRun({ key: key("k", "first") }));
      const run = harness.newRun({ key: key("k", "second") });
      const answer = await harness.store.admit({ tenant: harness.otherTenant(), run }, call);
      assert.equal(answer.kind, "admitted");
      assert.ok(!JSON.stringify(answer).includes(runId));
    },
  },
  {
    name: "a stopped tenant admits nothing but still replays",
    async check(harness) {
      const runId = await harness.admit(harness.newRun({ key: key("k") }));
      await harness.set({ stopped: true });
      assertOutcome(await admit(harness, harness.newRun()), { kind: "tenant_stopped" });
      const counted = await harness.store.countActive({ tenant: harness.tenant }, call);
      assertOutcome(counted, { kind: "counted", active: 1, stopped: true });
      const replay = await admit(harness, harness.newRun({ key: key("k") }));
      assertOutcome(replay, { kind: "replayed", runId, status: "pending" });
      await harness.set({});
      assert.equal((await admit(harness, harness.newRun())).kind, "admitted");
    },
  },
  {
    name: "lowering a limit evicts nobody and admits nobody; raising it admits at once",
    async check(harness) {
      await Promise.all([harness.admit(), harness.admit(), harness.admit()]);
      await harness.set({ maxConcurrentRuns: 1 });
      const refused = await admit(harness, harness.newRun());
      assertOutcome(refused, { kind: "max_concurrent_runs_reached", limit: 1, active: 3 });
      assert.equal((await active(harness)).length, 3);
      await harness.set({ maxConcurrentRuns: 4 });
      assert.equal((await admit(harness, harness.newRun())).kind, "admitted");
    },
  },
  {
    name: "whatever strategy the tenant is set to, admit decides within all limits",
    async check(harness) {
      await harness.set({ admissionStrategy: "lock", admissionWait: "fixed", maxConcurrentRuns: 1 });
      const [first, second] = [harness.newRun(), harness.newRun()];
      assert.equal((await admit(harness, first)).kind, "admitted");
      assert.equal((await admit(harness, first)).kind, "admitted");
      const full = { kind: "max_concurrent_runs_reached", limit: 1, active: 1 } as const;
      assertOutcome(await admit(harness, second), full);
      await harness.set({ admissionStrategy: "lock", stopped: true });
      assertOutcome(await admit(harness, second), { kind: "tenant_stopped" });
    },
  },
  {
    name: "an admit past its notAfter has no effect",
    async check(harness) {
      const run = harness.newRun({ key: key("k") });
      const options = { deadlineMs: 5_000, notAfterMs: 1 };
      const late = await harness.store.admit({ tenant: harness.tenant, run }, options);
      assertOutcome(late, { kind: "unavailable", cause: "too_late" });
      assert.deepEqual(await active(harness), []);
      assert.equal((await admit(harness, run)).kind, "admitted");
    },
  },
  {
    name: "the active runs are listed oldest first, and counted",
    async check(harness) {
      const runIds = [];
      for (let index = 0; index < 5; index += 1) {
        runIds.push(await harness.admit());
        const seen = await active(harness);
        // Runs of one millisecond are ordered by id; ours carry a growing number.
        assert.deepEqual(seen, runIds);
      }
      const two = await harness.store.listActive({ tenant: harness.tenant, limit: 2 }, call);
      assertOutcome(two, { kind: "listed", runIds: runIds.slice(0, 2), runs: [] });
      const counted = await harness.store.countActive({ tenant: harness.tenant }, call);
      assertOutcome(counted, { kind: "counted", active: 5, stopped: false });
    },
  },
  {
    name: "the oldest of the active runs are described as their headers are",
    async check(harness) {
      const { tenant, store } = harness;
      const runIds = [await harness.admit(), await harness.admit(), await harness.admit()];
      const listed = await store.listActive({ tenant, limit: 3, describe: 2 }, call);
      const headers = [];
      for (const runId of runIds.slice(0, 2)) {
        const loaded = await store.loadRun({ tenant, runId, records: [] }, call);
        if (loaded.kind === "run") headers.push(loaded.header);
      }
      assert.equal(headers.length, 2);
      assertOutcome(listed, { kind: "listed", runIds, runs: headers });
      const few = await store.listActive({ tenant, limit: 1, describe: 10 }, call);
      assertOutcome(few, { kind: "listed", runIds: runIds.slice(0, 1), runs: headers.slice(0, 1) });
    },
  },
];
