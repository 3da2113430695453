// The file of the SQLite store: one owner at a time, migration of older versions, refusal of what cannot be trusted.
import { readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setImmediate as turnOfLoop } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { loadDriver } from "../../src/adapters/sqlite/driver.ts";
import { systemClock } from "../../src/adapters/system/system.ts";
import { digestOf } from "../../src/domain/fingerprint.ts";
import type { ClaimToken, JobId } from "../../src/domain/job.ts";
import type { Fence, LockToken } from "../../src/domain/lock.ts";
import { type RunId, unchanged } from "../../src/domain/run.ts";
import { partitionOf } from "../../src/domain/tenant.ts";
import type { InterlockError } from "../../src/errors.ts";
import { perHour } from "../../src/testing/conformance/budget-steps.ts";
import { planOf } from "../../src/testing/conformance/gate-steps.ts";
import { only } from "../../src/testing/conformance/harness.ts";
import { startChildProgram } from "../support/child-program.ts";
import type { ChildLine } from "../support/sqlite-child.ts";
import {
  admission,
  call,
  clockAt,
  damage,
  eventNumbers,
  fileIn,
  fillAndClose,
  numberOfActive,
  openCoreIn,
  openStoreIn,
  runSql,
  tenant,
} from "../support/sqlite-support.ts";
import { diskFolder } from "../support/stores.ts";

let directory: string;
beforeEach(() => {
  directory = diskFolder();
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

const child = join(import.meta.dirname, "../support/sqlite-child.ts");

async function expectRefusal(folder: string, code: string): Promise<void> {
  const error = await openStoreIn(folder).then(
    () => undefined,
    (reason: InterlockError) => reason,
  );
  expect(error?.code).toBe(code);
  expect(error?.message).toContain(fileIn(folder));
}

test("SQLite is loaded without a warning, though Node 22 calls its own experimental", async () => {
  const { getBuiltinModule } = process;
  const warnings: string[] = [];
  const note = ({ message }: Error) => warnings.push(message);
  process.on("warning", note);
  process.getBuiltinModule = ((name: string) => {
    process.emitWarning("SQLite is an experimental feature", "ExperimentalWarning");
    return getBuiltinModule(name);
  }) as typeof getBuiltinModule;
  try {
    const open = await loadDriver();
    open(fileIn(directory), { readOnly: false }).close();
    process.emitWarning("what else is wrong is told");
    await turnOfLoop();
    expect(warnings).toEqual(["what else is wrong is told"]);
  } finally {
    process.getBuiltinModule = getBuiltinModule;
    process.off("warning", note);
  }
});

describe("one owner", () => {
  test("a second store in this process is refused", async () => {
    const store = await openStoreIn(directory);
    await expectRefusal(directory, "store_in_use");
    // The refused attempt must not have loosened the lock.
    const other = startChildProgram(child, { directory, inFlight: 0, first: 0 });
    expect(await other.next<ChildLine>()).toMatchObject({ refused: "store_in_use" });
    await other.stop();
    expect(await store.admit(admission(1), call)).toMatchObject({ kind: "admitted" });
    await store.close();
  });

  test("a second process is refused, and welcome at once when the first was killed", async () => {
    const first = startChildProgram(child, { directory, inFlight: 0, first: 0 });
    expect(await first.next<ChildLine>()).toEqual({ opened: true });
    const startedMs = performance.now();
    await expectRefusal(directory, "store_in_use");
    expect(performance.now() - startedMs).toBeLessThan(5_000);
    await first.stop();
    const store = await openStoreIn(directory);
    expect(await numberOfActive(store)).toBe(0);
    await store.close();
  });
});

describe("the file", () => {
  test("a newer schema is refused and left alone", async () => {
    await (await openStoreIn(directory)).close();
    await runSql(directory, "PRAGMA user_version = 99");
    await expectUntouched("store_schema_newer");
  });

  test("version 1 is migrated, with everything in it", async () => {
    const dump = readFileSync(join(import.meta.dirname, "../fixtures/sqlite-schema-1.sql"), "utf8");
    await runSql(directory, dump);
    const store = await openStoreIn(directory, { clock: clockAt(() => 0) });
    const runId = "run_47_first0001" as RunId;
    const records = [{ key: "input/run", body: '{"amount":100}' }];
    expect(await store.loadRun({ tenant, runId }, call)).toMatchObject({ kind: "run", records });
    expect(await store.listActive({ tenant, limit: 10 }, call)).toMatchObject({ runIds: [runId] });
    expect(await eventNumbers(store)).toEqual([1, 2, 3, 4]);
    // The newest time in the records, since version 1 kept no other.
    expect(await store.getTenant({ tenant }, call)).toMatchObject({ storeTimeMs: 1_763_200_000_035 });
    expect(await store.admit(admission(1), call)).toMatchObject({ active: 2, limit: 3 });
    await store.close();
    const again = await openCoreIn(directory);
    expect(again.database.prepare("PRAGMA user_version").get()).toMatchObject({ user_version: 11 });
    again.close();
  });

  test("version 2 is migrated: runs, keys and slots stay, and what has ended has an end", async () => {
    const dump = readFileSync(join(import.meta.dirname, "../fixtures/sqlite-schema-2.sql"), "utf8");
    await runSql(directory, dump);
    const openedAtMs = 1_763_200_001_000;
    const store = await openStoreIn(directory, { clock: clockAt(() => openedAtMs) });
    const runId = "run_47_first0001" as RunId;
    const ended = "run_47_second002" as RunId;
    const { header } = (await store.loadRun({ tenant, runId: ended }, call)) as { header: object };
    expect(header).toEqual({
      ...{ runId: ended, tenant, workflow: "invoice", definition: "", status: "succeeded", version: 1 },
      ...{ actor: "key_1", admittedAtMs: 1_763_200_000_021, updatedAtMs: 1_763_200_000_035 },
      ...{ endedAtMs: 1_763_200_000_035, reservation: digestOf("start_run", "order-2") },
    });
    const runs = await store.listRuns({ tenant, limit: 10 }, call);
    expect(runs).toMatchObject({ runs: [{ runId: ended }, { runId, status: "pending", version: 1 }] });
    expect(await store.listActive({ tenant, limit: 10 }, call)).toMatchObject({ runIds: [runId] });
    const inspect = (text: string) =>
      store.inspectReservation({ tenant, digest: digestOf("start_run", text) }, call);
    expect(await inspect("order-1")).toMatchObject({ kind: "bound", runId });
    expect(await inspect("order-2")).toMatchObject({ kind: "bound", runId: ended, finalStatus: "succeeded" });
    const commits = { commitId: "c", expectedVersion: 1, consumed: 0 };
    const change = { ...unchanged, status: "running", timeline: "[]" } as const;
    const lock = { namespace: "run", name: runId } as const;
    const request = { tenant, lock, token: "t" as LockToken, instance: "host:1", ttlMs: 1_000 };
    const { fence } = (await store.acquireLock(request, call)) as { fence: Fence };
    const guard = { lock, token: request.token, fence, policy: "fence", ttlMs: 1_000 } as const;
    expect(await store.commit({ tenant, runId, guard, ...commits, change }, call)).toMatchObject({
      version: 2,
    });
    await store.close();
    // A live run's key can be restored, as that of a run admitted today can.
    await runSql(directory, "DELETE FROM reservation; DELETE FROM keyed");
    const weekMs = 7 * 86_400_000;
    const afterMs = systemClock.wallMs() + weekMs;
    const later = await openStoreIn(directory, { clock: clockAt(() => afterMs) });
    const swept = await later.sweep({ partition: partitionOf(tenant) }, call);
    const repairs = [{ tenant, repair: "reservation_restored", runId }];
    expect(swept).toMatchObject({ kind: "swept", repairs });
    const left = await later.listRuns({ tenant, limit: 10 }, call);
    expect(left).toMatchObject({ runs: [{ runId, status: "running", version: 2 }] });
    await later.close();
  });

  test("version 3 is migrated: a lock that is held stays so, without an owner, and gets a queue", async () => {
    const dump = readFileSync(join(import.meta.dirname, "../fixtures/sqlite-schema-3.sql"), "utf8");
    await runSql(directory, dump);
    const store = await openStoreIn(directory, { clock: clockAt(() => 1_763_200_001_000) });
    const lock = { namespace: "public", name: "printer" } as const;
    const held = { lock, instance: "host:1", fence: 1_763_200_000_004_000, heldForMs: 996, waiting: 0 };
    const listed = await store.listLocks({ tenant, after: "", limit: 10 }, call);
    expect(listed).toMatchObject({ locks: [{ ...held, expiresInMs: 3_599_004 }] });
    const asked = { tenant, lock, token: "next" as LockToken, instance: "host:2", ttlMs: 1_000 };
    expect(await store.acquireLock({ ...asked, ticketMs: 1_000 }, call)).toMatchObject({ ahead: 0 });
    const release = { tenant, lock, token: "held-token" as LockToken };
    expect(await store.releaseLock(release, call)).toMatchObject({ granted: { token: "next" } });
    await store.close();
  });

  test("version 4 is migrated: a job that runs is counted from its next heartbeat on", async () => {
    const dump = readFileSync(join(import.meta.dirname, "../fixtures/sqlite-schema-4.sql"), "utf8");
    await runSql(directory, dump);
    const store = await openStoreIn(directory, { clock: clockAt(() => 1_763_200_001_000) });
    const running = async () => {
      const counted = await store.countJobs({ tenant, topics: ["build"], pools: ["default"] }, call);
      return counted.kind === "counted" ? [counted.topics[0], counted.pools[0]?.running] : counted;
    };
    const changes = { expectedVersion: 1, changeId: "c", actor: "key_1" };
    const limits = { maxConcurrentRuns: 5, topics: { build: { maxRunning: 1 } } };
    expect(await store.setTenant({ tenant, settings: limits, ...changes }, call)).toMatchObject({
      version: 2,
    });
    expect(await running()).toEqual([{ topic: "build", running: 0, waiting: 1 }, 0]);
    const held = { jobId: "run_47_first0001:one@1" as JobId, token: "claim-1" as ClaimToken };
    const beat = await store.heartbeatJobs({ tenant, beats: [{ ...held, leaseMs: 60_000 }] }, call);
    expect(beat).toMatchObject({ answers: [{ kind: "extended", stop: false }] });
    expect(await running()).toEqual([{ topic: "build", running: 1, waiting: 1 }, 1]);
    const terms = { token: "claim-2" as ClaimToken, worker: "w 2", leaseMs: 60_000 };
    const claims = [{ jobId: "run_47_first0001:two@1" as JobId, terms }];
    expect(await store.claimJobs({ tenant, claims }, call)).toMatchObject({
      answers: [{ kind: "refused", because: "topic_full" }],
    });
    await store.close();
  });

  test("version 7 is migrated: keys are found and counted, and only those that end are ordered by their end", async () => {
    const dump = readFileSync(join(import.meta.dirname, "../fixtures/sqlite-schema-7.sql"), "utf8");
    await runSql(directory, dump);
    const store = await openStoreIn(directory, { clock: clockAt(() => 1_763_200_001_000) });
    const inspect = (text: string) =>
      store.inspectReservation({ tenant, digest: digestOf("start_run", text) }, call);
    expect(await inspect("order-1")).toMatchObject({ kind: "bound", runId: "run_47_first0001" });
    expect(await inspect("order-2")).toMatchObject({ kind: "bound", finalStatus: "succeeded" });
    expect(await inspect("order-3")).toMatchObject({ kind: "idempotency_key_unbound" });
    expect(await store.admit(admission(1), call)).toMatchObject({ active: 2, keysKept: 3 });
    await store.close();
    const weekMs = 7 * 86_400_000;
    const later = await openStoreIn(directory, { clock: clockAt(() => 1_763_200_001_000 + weekMs) });
    await later.sweep({ partition: partitionOf(tenant) }, call);
    // The ended run's key has expired; those of live runs have not.
    expect(await later.countUsage({ tenant }, call)).toMatchObject({ used: { idempotency_keys: 2 } });
    await later.close();
    const core = await openCoreIn(directory);
    const keyed = core.database.prepare("SELECT COUNT(*) AS amount FROM keyed").get();
    expect(keyed).toMatchObject({ amount: 0 });
    core.close();
  });

  test("version 8 is migrated: a run whose rows hold whole records goes on, and what it writes is read back", async () => {
    const dump = readFileSync(join(import.meta.dirname, "../fixtures/sqlite-schema-8.sql"), "utf8");
    await runSql(directory, dump);
    const at = 1_763_200_001_000;
    const store = await openStoreIn(directory, { clock: clockAt(() => at) });
    const jobId = "run_47_third0003:one@1" as JobId;
    expect(await store.countActive({ tenant }, call)).toMatchObject({ active: 2 });
    const terms = { token: "claim-3" as ClaimToken, worker: "w 3", leaseMs: 60_000 };
    const claimed = { answers: [{ kind: "claimed", job: { topic: "build" } }] };
    expect(await store.claimJobs({ tenant, claims: [{ jobId, terms }] }, call)).toMatchObject(claimed);
    await store.close();
    const again = await openStoreIn(directory, { clock: clockAt(() => at) });
    const job = { state: "claimed", topic: "build", claim: { token: "claim-3", worker: "w 3" } };
    expect(await again.getJob({ tenant, jobId }, call)).toMatchObject({ kind: "job", job });
    await again.close();
  });

  test("version 9, whose tables are those of version 8, is migrated: a run waits at a gate, and still does when it is read back", async () => {
    const dump = readFileSync(join(import.meta.dirname, "../fixtures/sqlite-schema-8.sql"), "utf8");
    await runSql(directory, dump.replace("user_version = 8", "user_version = 9"));
    const store = await openStoreIn(directory);
    const { record } = only(await store.getTenant({ tenant }, call), "tenant");
    const settings = { ...record.settings, maxConcurrentRuns: 2 };
    const change = { expectedVersion: record.version, changeId: "limit", actor: "key_1" };
    only(await store.setTenant({ tenant, settings, ...change }, call), "saved");
    const run = { ...admission(7).run, start: "inbox", gates: planOf([]) } as const;
    only(await store.admit({ tenant, run }, call), "queued");
    await store.close();
    const again = await openStoreIn(directory);
    const listed = only(await again.listGates({ tenant, after: "", limit: 10 }, call), "listed");
    expect(listed.gates).toEqual([{ gate: "tenant", limit: 2, active: 2, waiting: 1 }]);
    await again.close();
  });

  test("version 10, which knew no rates and budgets, is migrated: what a start has counted in is read back", async () => {
    const dump = readFileSync(join(import.meta.dirname, "../fixtures/sqlite-schema-8.sql"), "utf8");
    await runSql(directory, dump.replace("user_version = 8", "user_version = 9"));
    await (await openStoreIn(directory)).close();
    const kinds = ["rate_level", "ledger", "parked", "parked_line", "charge", "released"];
    await runSql(
      directory,
      [...kinds.map((kind) => `DROP TABLE ${kind};`), "PRAGMA user_version = 10;"].join("\n"),
    );
    const rates = [perHour(5)];
    const store = await openStoreIn(directory);
    only(await store.admit({ tenant, run: { ...admission(7).run, rates } }, call), "admitted");
    await store.close();
    const again = await openStoreIn(directory);
    const answer = only(await again.admit({ tenant, run: { ...admission(7).run, rates } }, call), "admitted");
    expect(answer.rateLeft?.remaining).toBe(4);
    expect(only(await again.listLedgers({ tenant, after: "", limit: 9 }, call), "listed").ledgers).toEqual(
      [],
    );
    await again.close();
  });

  test("another program's database is refused and left alone", async () => {
    writeFileSync(fileIn(directory), "");
    await runSql(directory, "CREATE TABLE theirs (id)");
    await expectUntouched("store_corrupt");
  });

  test("a file that is no database is refused and left alone", async () => {
    writeFileSync(fileIn(directory), "not a database, and longer than a header ".repeat(200));
    await expectUntouched("store_corrupt");
  });

  test("a damaged header is refused and left alone", async () => {
    await fillAndClose(directory);
    damage(directory, 0, 100);
    await expectUntouched("store_corrupt");
  });

  test("a damaged page is refused and left alone", async () => {
    await fillAndClose(directory);
    damage(directory, 4096 * 6, 4096);
    await expectUntouched("store_corrupt");
  });

  test("a damaged page beside the log of a killed process is refused, and both are left alone", async () => {
    await fillAndClose(directory);
    const killed = startChildProgram(child, { directory, inFlight: 1, first: 1_000 });
    for (let line: ChildLine = { opened: true }; !("runId" in line); ) line = await killed.next<ChildLine>();
    await killed.stop();
    damage(directory, 4096 * 6, 4096 * 60);
    await expectUntouched("store_corrupt");
  });

  /** Refused with this code, and every byte of the file and its log is as before. */
  async function expectUntouched(code: string): Promise<void> {
    const logFile = `${fileIn(directory)}-wal`;
    const files = [fileIn(directory), ...(statSync(logFile, { throwIfNoEntry: false }) ? [logFile] : [])];
    const contents = () => files.map((file) => readFileSync(file, "latin1"));
    const before = contents();
    await expectRefusal(directory, code);
    expect(contents().every((content, index) => content === before[index])).toBe(true);
  }
});
