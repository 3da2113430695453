// What the sweep does in the file of the SQLite store: nothing when nothing is due, and repairs of what was lost.
import { rmSync } from "node:fs";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { systemClock } from "../../src/adapters/system/system.ts";
import type { LockName, LockToken } from "../../src/domain/lock.ts";
import { allPartitions, partitionOf } from "../../src/domain/tenant.ts";
import type { Store } from "../../src/ports/store.ts";
import { Harness, only } from "../../src/testing/conformance/harness.ts";
import { jobOf } from "../../src/testing/conformance/run-steps.ts";
import {
  admission,
  call,
  clockAt,
  keyOf,
  numberOfActive,
  openCoreIn,
  openStoreIn,
  performAll,
  runIdOf,
  runSql,
  tenant,
} from "../support/sqlite-support.ts";
import { diskFolder } from "../support/stores.ts";

let directory: string;
beforeEach(() => {
  directory = diskFolder();
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

const partition = partitionOf(tenant);

/** The store as it is ten minutes later: every proof is due then. */
function openLater(): Promise<Store> {
  const laterMs = systemClock.wallMs() + 600_000;
  return openStoreIn(directory, { clock: clockAt(() => laterMs) });
}

describe("idle", () => {
  test("while nothing is due neither a look nor the sweep changes a row, whatever there is", async () => {
    const filled = await openStoreIn(directory);
    const harness = new Harness(filled, systemClock, "sweep");
    const runId = harness.runId();
    const jobs = [jobOf(runId), jobOf(runId, { step: "claimed", claim: harness.claim() })];
    const timers = [{ timerId: "t", dueAtMs: 9_000_000_000_000 }];
    const change = { jobs, timers, deadLetters: [{ id: "l", reason: "claims_lost", body: "" } as const] };
    await harness.admit(harness.newRun({ runId, start: "inbox", change }));
    await harness.end(await harness.admit());
    await filled.close();
    const core = await openCoreIn(directory);
    const changes = () => core.database.prepare("SELECT total_changes() AS amount").get();
    const before = changes();
    for (let times = 0; times < 3; times += 1) {
      const [answer] = performAll(core, "sweep", [{ partition: harness.partition }]);
      expect(answer).toMatchObject({ kind: "swept", waiting: [] });
      const [found] = performAll(core, "findDue", [{ partitions: allPartitions }]);
      expect(found).toMatchObject({ kind: "found", partitions: [] });
    }
    expect(changes()).toEqual(before);
    core.close();
  });
});

describe("repairs", () => {
  test("a slot of a run that is gone, or has ended, is freed", async () => {
    const store = await openStoreIn(directory);
    await store.admit(admission(1), call);
    await store.close();
    const gone = runIdOf(2);
    await runSql(directory, `INSERT INTO active VALUES ('${tenant}', '0000000000000001 ${gone}', '{}')`);
    const later = await openLater();
    expect(await numberOfActive(later)).toBe(2);
    const swept = only(await later.sweep({ partition }, call), "swept");
    expect(swept.repairs).toEqual([{ tenant, repair: "slot_freed", runId: gone }]);
    expect(await numberOfActive(later)).toBe(1);
    await later.close();
  });

  test("a live run's key that was lost binds it again, and counts again", async () => {
    const store = await openStoreIn(directory);
    await store.admit(admission(1), call);
    await store.close();
    await runSql(directory, "DELETE FROM reservation");
    const later = await openLater();
    const { digest } = keyOf(1);
    expect(await later.inspectReservation({ tenant, digest }, call)).toMatchObject({
      kind: "idempotency_key_unbound",
    });
    const swept = only(await later.sweep({ partition }, call), "swept");
    const runId = runIdOf(1);
    expect(swept.repairs).toEqual([{ tenant, repair: "reservation_restored", runId }]);
    expect(await later.inspectReservation({ tenant, digest }, call)).toMatchObject({ kind: "bound", runId });
    expect(await later.countUsage({ tenant }, call)).toMatchObject({ used: { idempotency_keys: 1 } });
    await later.close();
  });
});

describe("locks", () => {
  const lock: LockName = { namespace: "public", name: "printer" };
  const ask = (token: string, ticketMs = 30_000) => ({
    ...{ tenant, lock, token: token as LockToken, instance: "host:1", ttlMs: 1_000 },
    ticketMs,
  });
  const minuteMs = 60_000;

  async function rowsOf(tables: readonly string[]): Promise<readonly unknown[]> {
    const core = await openCoreIn(directory);
    const rows = tables.flatMap((table) => core.database.prepare(`SELECT member FROM ${table}`).all());
    core.close();
    return rows;
  }

  test("one that nobody uses any more is forgotten, with its silent tickets and those who left its queue", async () => {
    let nowMs = systemClock.wallMs();
    const store = await openStoreIn(directory, { clock: clockAt(() => nowMs) });
    only(await store.acquireLock(ask("holder"), call), "acquired");
    for (const token of ["leaving", "silent"]) only(await store.acquireLock(ask(token), call), "busy");
    only(await store.releaseLock({ tenant, lock, token: "leaving" as LockToken }, call), "released");
    nowMs += 9 * minuteMs;
    await store.sweep({ partition }, call);
    only(
      await store.renewLock({ tenant, lock, token: "holder" as LockToken, ttlMs: 1_000 }, call),
      "not_owned",
    );
    nowMs += 2 * minuteMs;
    only(await store.sweep({ partition }, call), "swept");
    await store.close();
    expect(await rowsOf(["lock", "ticket", "ending", "due"])).toEqual([]);
  });

  test("one that is still in use stays, and is visited again", async () => {
    let nowMs = systemClock.wallMs();
    const store = await openStoreIn(directory, { clock: clockAt(() => nowMs) });
    const { fence } = only(await store.acquireLock(ask("holder"), call), "acquired");
    for (let minute = 0; minute < 12; minute += 1) {
      const held = { tenant, lock, token: "holder" as LockToken, ttlMs: 2 * minuteMs };
      expect(await store.renewLock(held, call)).toMatchObject({ kind: "renewed", fence });
      nowMs += minuteMs;
      only(await store.sweep({ partition }, call), "swept");
    }
    await store.close();
    expect(await rowsOf(["lock", "due"])).toHaveLength(2);
  });
});
