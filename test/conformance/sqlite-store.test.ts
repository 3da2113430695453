// What only the SQLite store promises: durable settings, group commit, deadlines and honest answers to faults.
import { rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Call, Reply, SqliteCore } from "../../src/adapters/sqlite/sqlite-core.ts";
import { CallQueue } from "../../src/adapters/sqlite/sqlite-store.ts";
import type { LockToken } from "../../src/domain/lock.ts";
import type { TenantId } from "../../src/domain/tenant.ts";
import type { InterlockError } from "../../src/errors.ts";
import type { Clock } from "../../src/ports/ports.ts";
import {
  admission,
  call,
  clockAt,
  countCommits,
  damage,
  eventNumbers,
  fileIn,
  fillAndClose,
  keyOf,
  numberOfActive,
  openCoreIn,
  openStoreIn,
  performAll,
  range,
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

const planted = new URL("../support/sqlite-planted-operations.ts", import.meta.url);

describe("durability", () => {
  test("the live connection logs ahead, syncs every commit and owns the file", async () => {
    const core = await openCoreIn(directory);
    const read = (name: string) => Object.values(core.database.prepare(`PRAGMA ${name}`).get() as object)[0];
    expect(read("journal_mode")).toBe("wal");
    expect(read("synchronous")).toBe(2);
    expect(read("locking_mode")).toBe("exclusive");
    expect(read("wal_autocheckpoint")).toBe(0);
    core.close();
  });

  test("folder and file are for their owner only", async () => {
    const folder = join(directory, "data");
    await (await openStoreIn(folder)).close();
    expect(statSync(folder).mode & 0o777).toBe(0o700);
    expect(statSync(fileIn(folder)).mode & 0o777).toBe(0o600);
  });

  test("operations that wait together share a commit; one after the other, each has its own", async () => {
    const store = await openStoreIn(directory);
    const before = countCommits(directory);
    for (const index of range(10)) await store.admit(admission(index), call);
    expect(countCommits(directory) - before).toBe(10);
    const answers = await Promise.all(range(100).map((index) => store.admit(admission(100 + index), call)));
    expect(answers.every((answer) => answer.kind === "admitted")).toBe(true);
    expect(countCommits(directory) - before - 10).toBeLessThanOrEqual(10);
    await store.close();
  });

  test("a transaction that has worked for 10 ms takes no further operations", async () => {
    let nowMs = 0;
    const core = await openCoreIn(directory, { monotonicMs: () => (nowMs += 4) });
    const replies = performAll(
      core,
      "admit",
      range(10).map((index) => admission(index)),
    );
    expect(replies).toHaveLength(3);
    expect(performAll(core, "countActive", [{ tenant }])).toMatchObject([{ active: 3 }]);
    core.close();
  });

  test("calls that only read write nothing", async () => {
    const store = await openStoreIn(directory);
    await store.admit(admission(1), call);
    const sizes = () => [fileIn(directory), `${fileIn(directory)}-wal`].map((file) => statSync(file));
    const facts = () => sizes().map(({ size, mtimeMs }) => ({ size, mtimeMs }));
    const before = facts();
    for (const index of range(20)) {
      await store.loadRun({ tenant, runId: runIdOf(index) }, call);
      await store.countActive({ tenant }, call);
      await store.readEvents({ tenant, after: 0, limit: 10 }, call);
      await store.admit(admission(1), call);
    }
    expect(facts()).toEqual(before);
    await store.close();
  });

  test("close answers what is queued, and the file then holds everything", async () => {
    const store = await openStoreIn(directory);
    const answers = Promise.all(range(300).map((index) => store.admit(admission(index), call)));
    await store.close();
    expect((await answers).every((answer) => answer.kind === "admitted")).toBe(true);
    expect(await store.admit(admission(999), call)).toMatchObject({ kind: "unavailable" });
    expect(statSync(`${fileIn(directory)}-wal`, { throwIfNoEntry: false })).toBeUndefined();
    const again = await openStoreIn(directory);
    expect(await numberOfActive(again)).toBe(300);
    await again.close();
  });

  test("numbers and texts survive byte for byte, as keys too", async () => {
    const odd = [
      "\0",
      "\u0001",
      "\uD7FF",
      "\uD800",
      "\uE000",
      "\u{1F600}",
      "\uFFFF",
      "a\0b",
      "a",
      "é",
      "'\"\\",
    ];
    const records = odd.map((text) => ({
      key: `input/${text}`,
      body: `${text}${"x".repeat(100_000)}${text}`,
    }));
    const maxConcurrentRuns = 1.7976931348623157e308;
    const token = "token" as LockToken;
    const lock = { namespace: "public", name: "a\0b" } as const;
    const store = await openStoreIn(directory);
    await store.setTenant(
      { tenant, settings: { maxConcurrentRuns }, expectedVersion: 0, changeId: "1", actor: "tester" },
      call,
    );
    const { run } = admission(1);
    await store.admit({ tenant, run: { ...run, actor: "é\0", change: { ...run.change, records } } }, call);
    const grant = { tenant, lock, token, instance: "host:1", ttlMs: Number.MAX_SAFE_INTEGER - 2 ** 52 };
    const acquired = await store.acquireLock(grant, call);
    await store.close();

    const again = await openStoreIn(directory);
    const loaded = await again.loadRun({ tenant, runId: runIdOf(1) }, call);
    const ordered = [...records].sort((left, right) => (left.key < right.key ? -1 : 1));
    expect(loaded).toMatchObject({ kind: "run", header: { actor: "é\0" }, records: ordered });
    const { settings } = ((await again.getTenant({ tenant }, call)) as { record: { settings: object } })
      .record;
    expect(settings).toEqual({ maxConcurrentRuns });
    const { fence } = acquired as { fence: number };
    expect(await again.inspectLock({ tenant, lock }, call)).toMatchObject({ kind: "held", fence });
    const other = { namespace: "public", name: "a" } as const;
    expect(await again.inspectLock({ tenant, lock: other }, call)).toMatchObject({ kind: "free" });
    await again.close();
  });

  test("the store's time never goes back, over a restart either", async () => {
    const laterMs = 4_000_000_000_000;
    const early = await openStoreIn(directory, { clock: clockAt(() => laterMs) });
    await early.admit(admission(1), call);
    await early.close();
    const late = await openStoreIn(directory, { clock: clockAt(() => laterMs - 3_600_000) });
    const answer = await late.admit(admission(2), call);
    expect(answer).toMatchObject({ kind: "admitted", storeTimeMs: laterMs });
    await late.close();
  });
});

describe("faults", () => {
  test("an operation that throws after its writes takes back only its own", async () => {
    const store = await openStoreIn(directory, { operationsModule: planted });
    await store.admit(admission(0), call);
    const answers = await Promise.allSettled(
      range(30).map((index) => {
        const workflow = index % 3 === 0 ? "throws_late" : "deploy";
        return store.admit(admission(index + 1, { workflow }), call);
      }),
    );
    answers.forEach((answer, index) => {
      if (index % 3 !== 0) expect(answer).toMatchObject({ value: { kind: "admitted" } });
      else
        expect(answer).toMatchObject({
          reason: { code: "internal", message: expect.stringMatching(/planted/) },
        });
    });
    expect(await numberOfActive(store)).toBe(21);
    expect(await eventNumbers(store)).toEqual(range(21).map((index) => index + 1));
    const digest = keyOf(1).digest;
    expect(await store.inspectReservation({ tenant, digest }, call)).toMatchObject({
      kind: "idempotency_key_unbound",
    });
    expect(await store.loadRun({ tenant, runId: runIdOf(1) }, call)).toMatchObject({ kind: "not_found" });
    await store.close();
  });

  test("a full disk refuses the whole batch, keeps nothing of it, and is over when there is room", async () => {
    const core = await openCoreIn(directory);
    performAll(core, "admit", [admission(0)]);
    const limitPages = (pages: number) => core.database.exec(`PRAGMA max_page_count = ${pages}`);
    limitPages(40);
    const large = range(20).map((index) => admission(index + 1, { body: "x".repeat(20_000) }));
    const refused = performAll(core, "admit", large);
    expect(refused).toHaveLength(20);
    for (const reply of refused)
      expect(reply).toMatchObject({ kind: "unavailable", cause: expect.stringMatching(/^disk full/) });
    expectOnlyFirst(core);
    expect(performAll(core, "admit", [admission(0)])).toMatchObject([{ kind: "admitted", active: 1 }]);
    limitPages(100_000);
    for (const reply of performAll(core, "admit", large)) expect(reply.kind).toBe("admitted");
    expect(performAll(core, "countActive", [{ tenant }])).toMatchObject([{ active: 21 }]);
    core.close();
  });

  function expectOnlyFirst(core: SqliteCore): void {
    for (const table of ["run", "run_bundle", "active", "reservation", "event"]) {
      const row = core.database.prepare(`SELECT COUNT(*) AS amount FROM ${table}`).get();
      expect(row, table).toMatchObject({ amount: 1 });
    }
  }

  test("a commit that fails leaves the outcome of its batch unknown, and the store goes on", async () => {
    await (await openStoreIn(directory)).close();
    // A deferred constraint is checked by COMMIT itself: this one makes every commit with an event of `doomed` fail.
    await runSql(
      directory,
      `CREATE TABLE parent (id INTEGER PRIMARY KEY);
       CREATE TABLE child (id INTEGER REFERENCES parent (id) DEFERRABLE INITIALLY DEFERRED);
       CREATE TRIGGER doom AFTER INSERT ON event WHEN NEW.scope = 'doomed'
       BEGIN INSERT INTO child VALUES (1); END`,
    );
    const store = await openStoreIn(directory);
    const doomed = "doomed" as TenantId;
    const request = admission(1, { tenant: doomed });
    const answer = await store.admit(request, { deadlineMs: 5_000, notAfterMs: 9_000_000_000_000 });
    expect(answer).toMatchObject({
      kind: "unknown",
      cause: expect.stringMatching(/commit/),
      notAfterMs: 9_000_000_000_000,
    });
    expect(await store.loadRun({ tenant: doomed, runId: request.run.runId }, call)).toMatchObject({
      kind: "not_found",
    });
    expect(await numberOfActive(store, doomed)).toBe(0);
    expect(await store.admit(admission(2), call)).toMatchObject({ kind: "admitted", active: 1 });
    await store.close();
  });

  test("when the thread dies its calls are unknown, all others unavailable, and the owner is told once", async () => {
    const fatal: string[] = [];
    const onFatal = (error: InterlockError) => fatal.push(error.message);
    const store = await openStoreIn(directory, { operationsModule: planted, onFatal });
    await store.admit(admission(0), call);
    const handedOver = store.admit(admission(1, { workflow: "thread_ends" }), call);
    await Promise.resolve();
    const waiting = store.admit(admission(2), call);
    expect(await handedOver).toMatchObject({ kind: "unknown" });
    expect(await waiting).toMatchObject({ kind: "unavailable" });
    expect(await store.admit(admission(3), call)).toMatchObject({ kind: "unavailable" });
    expect(fatal).toHaveLength(1);
    await store.close();
    const again = await openStoreIn(directory);
    expect(await numberOfActive(again)).toBe(1);
    await again.close();
  });

  test("corruption found while working is the end: unknown now, unavailable from then on", async () => {
    await fillAndClose(directory);
    const core = await openCoreIn(directory);
    damage(directory, 4096 * 6, 4096 * 60);
    const requests = range(200).map((index) => ({ tenant, runId: runIdOf(index) }));
    for (const reply of performAll(core, "loadRun", requests))
      expect(reply).toMatchObject({ kind: "unknown" });
    expect(core.broken).toMatchObject({ code: "store_corrupt" });
    expect(performAll(core, "countActive", [{ tenant }])).toMatchObject([{ kind: "unavailable" }]);
    core.close();
  });
});

describe("deadlines", () => {
  const sent: Call[] = [];
  const timers = new Map<number, () => void>();
  const timer: Clock["timer"] = (ms, callback) => {
    timers.set(ms, callback);
    return () => timers.delete(ms);
  };
  let queue: CallQueue;
  beforeEach(() => {
    sent.length = 0;
    timers.clear();
    const clock = { ...clockAt(() => 1_000), timer };
    queue = new CallQueue({
      clock,
      storeClock: { nowMs: () => 5_000 },
      handOver: (calls) => sent.push(...calls),
    });
  });
  const lock = { namespace: "public", name: "deploy" } as const;
  const release = (deadlineMs: number) =>
    queue.execute("releaseLock", { tenant, lock, token: "token" as LockToken }, { deadlineMs });
  const answers = (reply: Reply) => queue.answered([reply]);

  test("a call that was handed over is unknown after its deadline, and a late answer changes nothing", async () => {
    const answer = release(20);
    await Promise.resolve();
    expect(sent).toMatchObject([{ name: "releaseLock", notAfterMs: 5_020 }]);
    timers.get(20)?.();
    expect(await answer).toMatchObject({ kind: "unknown", notAfterMs: 5_020 });
    const next = release(30);
    answers({ kind: "released", storeTimeMs: 5_001 });
    await Promise.resolve();
    answers({ kind: "not_owned", storeTimeMs: 5_001 });
    expect(await next).toMatchObject({ kind: "not_owned" });
  });

  test("a call that still waits is taken back: unavailable, and never sent", async () => {
    const first = release(20);
    await Promise.resolve();
    const waiting = release(30);
    timers.get(30)?.();
    expect(await waiting).toMatchObject({ kind: "unavailable" });
    answers({ kind: "released", storeTimeMs: 5_001 });
    expect(await first).toMatchObject({ kind: "released" });
    await queue.close();
    expect(sent).toHaveLength(1);
    expect(timers.size).toBe(0);
  });

  test("a call whose time has passed has no effect", async () => {
    const store = await openStoreIn(directory);
    const { storeTimeMs } = (await store.countActive({ tenant }, call)) as { storeTimeMs: number };
    const late = await store.admit(admission(1), { deadlineMs: 5_000, notAfterMs: storeTimeMs - 1 });
    expect(late).toEqual({ kind: "unavailable", cause: "too_late" });
    expect(await numberOfActive(store)).toBe(0);
    await store.close();
  });
});
