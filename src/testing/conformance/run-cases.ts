// What every store must do with ended runs, tenants' settings and the audit trail.
import assert from "node:assert/strict";
import type { EventRow } from "../../domain/event.ts";
import type { Guard } from "../../domain/lock.ts";
import type { RunId, TerminalStatus } from "../../domain/run.ts";
import { assertOutcome, type ConformanceCase, call, type Harness, key } from "./harness.ts";

function end(
  harness: Harness,
  guard: Guard,
  runId: RunId,
  status: TerminalStatus = "succeeded",
  retention: { keyRetentionMs?: number } = {},
) {
  return harness.store.endRun(
    { tenant: harness.tenant, guard, runId, status, actor: "ender", ...retention },
    call,
  );
}

function runLock(harness: Harness, runId: RunId, ttlMs = 10_000) {
  return harness.acquire({ namespace: "run", name: runId }, ttlMs);
}

async function events(harness: Harness, after = 0, limit = 100): Promise<readonly EventRow[]> {
  const answer = await harness.store.readEvents({ tenant: harness.tenant, after, limit }, call);
  assert.equal(answer.kind, "events");
  return (answer as { events: readonly EventRow[] }).events;
}

export const runCases: readonly ConformanceCase[] = [
  {
    name: "ending a run frees its slot and records when and by which grant",
    async check(harness) {
      await harness.set({ maxConcurrentRuns: 1 });
      const runId = await harness.admit();
      const guard = await runLock(harness, runId);
      assertOutcome(await end(harness, guard, runId, "failed"), { kind: "ended", status: "failed" });
      const counted = await harness.store.countActive({ tenant: harness.tenant }, call);
      assertOutcome(counted, { kind: "counted", active: 0, limit: 1, stopped: false });
      const loaded = await harness.store.loadRun({ tenant: harness.tenant, runId, records: [] }, call);
      const { header, records } = loaded as Extract<typeof loaded, { kind: "run" }>;
      assert.deepEqual(records, []);
      assert.equal(header.status, "failed");
      assert.equal(header.endedByFence, guard.fence);
      assert.ok((header.endedAtMs ?? 0) >= header.admittedAtMs);
    },
  },
  {
    name: "a repeated end gives the same answer; another owner's end finds it already ended",
    async check(harness) {
      const runId = await harness.admit();
      const first = await runLock(harness, runId);
      assertOutcome(await end(harness, first, runId), { kind: "ended", status: "succeeded" });
      assertOutcome(await end(harness, first, runId), { kind: "ended", status: "succeeded" });
      await harness.store.releaseLock({ tenant: harness.tenant, lock: first.lock, token: first.token }, call);
      const second = await runLock(harness, runId);
      assertOutcome(await end(harness, second, runId), { kind: "already_ended", status: "succeeded" });
      assertOutcome(await end(harness, first, runId, "failed"), {
        kind: "already_ended",
        status: "succeeded",
      });
      assert.equal((await events(harness)).filter(({ type }) => type === "run_ended").length, 1);
    },
  },
  {
    name: "a stale owner cannot end a run that a newer owner holds",
    async check(harness) {
      const runId = await harness.admit();
      const stale = await runLock(harness, runId, 20);
      await harness.untilFree(stale.lock);
      const current = await runLock(harness, runId);
      assertOutcome(await end(harness, stale, runId), { kind: "stale_fence" });
      assertOutcome(await end(harness, current, runId, "cancelled"), { kind: "ended", status: "cancelled" });
    },
  },
  {
    name: "a run that does not exist, or is another tenant's, is not found",
    async check(harness) {
      const runId = harness.runId();
      const guard = await runLock(harness, runId);
      assertOutcome(await end(harness, guard, runId), { kind: "not_found" });
      const ours = await harness.admit();
      const foreign = await harness.store.loadRun({ tenant: harness.otherTenant(), runId: ours }, call);
      assertOutcome(foreign, { kind: "not_found" });
    },
  },
  {
    name: "records are loaded by name, in the order asked, without the missing ones",
    async check(harness) {
      const records = ["a", "b", "c"].map((id) => ({ key: `step/${id}`, body: id }));
      const runId = await harness.admit(harness.newRun({ records }));
      const wanted = ["step/c", "step/none", "step/a"];
      const loaded = await harness.store.loadRun({ tenant: harness.tenant, runId, records: wanted }, call);
      const { records: found } = loaded as Extract<typeof loaded, { kind: "run" }>;
      assert.deepEqual(found, [records[2], records[0]]);
    },
  },
  {
    name: "a key replays with its run's final status until its retention ends, then it is free",
    async check(harness) {
      const run = harness.newRun({ key: key("k") });
      await harness.admit(run);
      const guard = await runLock(harness, run.runId);
      await end(harness, guard, run.runId, "failed", { keyRetentionMs: 60 });
      const replay = await harness.store.admit(
        { tenant: harness.tenant, run: harness.newRun({ key: key("k") }) },
        call,
      );
      assertOutcome(replay, { kind: "replayed", runId: run.runId, status: "failed" });
      const { digest } = key("k");
      await harness.until(async () => {
        const answer = await harness.store.inspectReservation({ tenant: harness.tenant, digest }, call);
        return answer.kind === "unbound";
      });
      await harness.admit(harness.newRun({ key: key("k") }));
    },
  },
  {
    name: "without a retention a key replays for ever",
    async check(harness) {
      const run = harness.newRun({ key: key("k") });
      await harness.admit(run);
      await harness.end(run.runId);
      const bound = await harness.store.inspectReservation(
        { tenant: harness.tenant, digest: key("k").digest },
        call,
      );
      assertOutcome(bound, { kind: "bound", runId: run.runId, finalStatus: "succeeded" });
    },
  },
  {
    name: "settings are replaced only by who saw the last version, and a repeat is recognised",
    async check(harness) {
      const base = { tenant: harness.tenant, actor: "operator" };
      const settings = {
        maxConcurrentRuns: 3,
        admissionStrategy: "lock",
        admissionWait: "jitter",
        stopped: true,
      } as const;
      const first = { ...base, settings, expectedVersion: 0, changeId: "change-1" };
      assertOutcome(await harness.store.setTenant(first, call), { kind: "saved", version: 1 });
      assertOutcome(await harness.store.setTenant(first, call), { kind: "saved", version: 1 });
      const rival = { ...base, settings: {}, expectedVersion: 0, changeId: "change-2" };
      assertOutcome(await harness.store.setTenant(rival, call), { kind: "version_conflict", version: 1 });
      const read = await harness.store.getTenant({ tenant: harness.tenant }, call);
      assertOutcome(read, { kind: "tenant", record: { settings, version: 1 } });
      const second = { ...rival, expectedVersion: 1 };
      assertOutcome(await harness.store.setTenant(second, call), { kind: "saved", version: 2 });
      const emptied = await harness.store.getTenant({ tenant: harness.tenant }, call);
      assertOutcome(emptied, { kind: "tenant", record: { settings: {}, version: 2 } });
    },
  },
  {
    name: "a tenant never set has no settings and version 0",
    async check(harness) {
      const read = await harness.store.getTenant({ tenant: harness.tenant }, call);
      assertOutcome(read, { kind: "tenant", record: { settings: {}, version: 0 } });
    },
  },
  {
    name: "every change of runs and settings is one event with the next number; refusals and repeats are none",
    async check(harness) {
      await harness.set({ maxConcurrentRuns: 1 });
      const run = harness.newRun();
      await harness.admit(run);
      await harness.admit(run);
      await harness.store.admit({ tenant: harness.tenant, run: harness.newRun() }, call);
      const guard = await runLock(harness, run.runId);
      await end(harness, guard, run.runId, "denied");
      const rows = await events(harness);
      const seen = rows.map(({ sequence, type, subject, actor, detail }) => [
        sequence,
        type,
        subject,
        actor,
        detail,
      ]);
      assert.deepEqual(seen, [
        [1, "tenant_changed", harness.tenant, "tester", rows[0]?.detail],
        [2, "run_admitted", run.runId, "tester", "deploy"],
        [3, "run_ended", run.runId, "ender", "denied"],
      ]);
      assert.deepEqual(
        (await events(harness, 1, 1)).map(({ sequence }) => sequence),
        [2],
      );
    },
  },
];
