// What the sweep does in Redis itself: nothing when nothing is due, repairs of what was lost, and things it cannot read.
import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { createKeys, type TenantKeys } from "../../src/adapters/redis/keys.ts";
import { openRedisStore } from "../../src/adapters/redis/redis-store.ts";
import { systemClock } from "../../src/adapters/system/system.ts";
import type { RunId } from "../../src/domain/run.ts";
import { type RedisServer, startRedisServer } from "../../src/drills/servers/start-servers.ts";
import { defaultStoreSettings, type Store } from "../../src/ports/store.ts";
import { call, Harness, key, only } from "../../src/testing/conformance/harness.ts";
import {
  approvalOf,
  cancelOf,
  childOf,
  deliver,
  jobOf,
  runLock,
} from "../../src/testing/conformance/run-steps.ts";
import { changedKeys, takeSnapshot } from "../support/redis-snapshot.ts";
import { silentLog } from "../support/silent-log.ts";

const prefix = "interlock";

let server: RedisServer;
let store: Store;
let harness: Harness;
let keys: TenantKeys;

beforeAll(async () => {
  server = await startRedisServer();
  const settings = { ...defaultStoreSettings, sweepEveryMs: 0 };
  const common = { mode: "standalone", prefix, settings, clock: systemClock, log: silentLog } as const;
  store = await openRedisStore({ ...common, urls: [server.url] });
});
beforeEach(async () => {
  await server.command("FLUSHALL");
  harness = new Harness(store, systemClock, randomBytes(6).toString("hex"));
  keys = createKeys(prefix).forTenant(harness.tenant);
});
afterAll(async () => {
  await store?.close();
  await server?.stop();
});

async function sweep() {
  return only(await store.sweep({ partition: harness.partition }, call), "swept");
}

/** As if its time had come. */
async function hasten(...members: string[]): Promise<void> {
  for (const member of members) await server.command("ZADD", keys.due, "XX", "1", member);
}

const dueMembers = () => server.command<string[]>("ZRANGE", keys.due, "0", "-1");

describe("idle", () => {
  test("the sweep of an empty partition writes nothing", async () => {
    const before = await takeSnapshot(server);
    await sweep();
    expect(changedKeys(before, await takeSnapshot(server))).toEqual([]);
  });

  test("while nothing is due the sweep writes nothing, whatever there is", async () => {
    const runId = harness.runId();
    const jobs = [jobOf(runId), jobOf(runId, { step: "claimed", claim: harness.claim() })];
    const timers = [{ timerId: "t", dueAtMs: 9_000_000_000_000 }];
    const change = { jobs, timers, deadLetters: [{ id: "l", reason: "claims_lost", body: "" } as const] };
    await harness.admit(harness.newRun({ runId, key: key("k"), start: "inbox", change }));
    await harness.end(await harness.admit(harness.newRun({ key: key("ended") })));
    expect((await dueMembers()).map((member) => member.split(" ")[0]).sort()).toEqual(
      ["attention", "claim", "letter", "proof", "retention", "timer", "unclaimed"].sort(),
    );
    const before = await takeSnapshot(server);
    for (let times = 0; times < 3; times += 1) {
      await sweep();
    }
    expect(changedKeys(before, await takeSnapshot(server))).toEqual([]);
  });

  test("a sweep that comes too soon writes nothing", async () => {
    const settings = { ...defaultStoreSettings, sweepEveryMs: 600_000 };
    const common = { mode: "standalone", prefix, settings, clock: systemClock, log: silentLog } as const;
    const patient = await openRedisStore({ ...common, urls: [server.url] });
    const timers = ["a", "b"].map((timerId) => ({ timerId, dueAtMs: 1 }));
    for (const timer of timers) {
      await harness.admit(harness.newRun({ change: { timers: [timer] } }));
      await patient.sweep({ partition: harness.partition }, call);
    }
    const before = await takeSnapshot(server);
    expect(await patient.sweep({ partition: harness.partition }, call)).toMatchObject({ kind: "not_due" });
    expect(changedKeys(before, await takeSnapshot(server))).toEqual([]);
    await patient.close();
  });
});

describe("repairs", () => {
  const proof = () => hasten(`proof ${harness.tenant} `);

  test("a slot of a run that is gone, has ended or is a child is freed", async () => {
    const { tenant } = harness;
    const live = await harness.admit();
    const ended = await harness.admit();
    await harness.end(ended);
    const gone = harness.runId();
    const child = childOf(harness);
    await harness.commit(live, { children: [child] });
    await server.command("ZADD", keys.active, "1", gone, "2", ended, "3", child.runId);
    await proof();
    const { repairs } = await sweep();
    expect(repairs).toEqual([
      { tenant, repair: "slot_freed", runId: gone },
      { tenant, repair: "slot_freed", runId: ended },
      { tenant, repair: "slot_freed", runId: child.runId },
    ]);
    expect(await store.listActive({ tenant, limit: 9 }, call)).toMatchObject({ runIds: [live] });
    await proof();
    expect((await sweep()).repairs).toEqual([]);
  });

  test("a live run's key that was lost binds it again, and counts again", async () => {
    const { tenant } = harness;
    const runId = await harness.admit(harness.newRun({ key: key("k") }));
    const { digest } = key("k");
    const before = await server.command("GET", keys.reservation(digest));
    await server.command("DEL", keys.reservation(digest));
    await server.command("ZREM", keys.keyed, digest);
    await proof();
    expect((await sweep()).repairs).toEqual([{ tenant, repair: "reservation_restored", runId }]);
    expect(await server.command("GET", keys.reservation(digest))).toBe(before);
    expect(await server.command("ZCARD", keys.keyed)).toBe(1);
    const replay = await store.admit({ tenant, run: harness.newRun({ key: key("k") }) }, call);
    expect(replay).toMatchObject({ kind: "replayed", runId });
  });

  test("a tenant with many slots is proved a hundred at a time, and from the start again", async () => {
    for (let index = 0; index < 130; index += 1)
      await server.command("ZADD", keys.active, "1", `run_00_gone${String(index).padStart(5, "0")}`);
    const last = await harness.admit();
    const freed: number[] = [];
    for (let visit = 0; visit < 3; visit += 1) {
      await proof();
      freed.push((await sweep()).repairs.length);
    }
    expect(freed).toEqual([100, 30, 0]);
    expect(await store.listActive({ tenant: harness.tenant, limit: 9 }, call)).toMatchObject({
      runIds: [last],
    });
  });

  test("keys that have expired no longer count", async () => {
    await harness.end(await harness.admit(harness.newRun({ key: key("k") })));
    await server.command("ZADD", keys.keyed, "1", key("k").digest);
    await proof();
    await sweep();
    expect(await server.command("EXISTS", keys.keyed)).toBe(0);
    expect((await dueMembers()).filter((member) => member.startsWith("proof"))).toEqual([]);
  });
});

describe("a key of a wrong type", () => {
  /** One run with something due of every kind, and the keys that handling it writes. */
  async function prepare() {
    const { tenant } = harness;
    const runId = harness.runId();
    const jobs = [jobOf(runId), jobOf(runId, { step: "claimed", claim: harness.claim(1) })];
    const timers = [{ timerId: "t", dueAtMs: 1 }];
    const change = { jobs, timers, deadLetters: [{ id: "l", reason: "claims_lost", body: "" } as const] };
    await harness.admit(harness.newRun({ runId, key: key("k"), start: "inbox", change }));
    await harness.untilAfter((await harness.now()) + 1);
    await hasten(
      `attention ${tenant} ${runId}`,
      `proof ${tenant} `,
      `unclaimed ${tenant} ${jobOf(runId).jobId}`,
    );
    return runId;
  }

  test("in the run or its inbox puts the run's things off, and other tenants are swept", async () => {
    const other = harness.newRun({ change: { timers: [{ timerId: "t", dueAtMs: 2 }] } });
    for (const planted of ["run", "inbox"] as const) {
      await server.command("FLUSHALL");
      const runId = await prepare();
      await harness.admit({ ...other, runId: harness.runId() });
      const name = keys[planted](runId);
      await server.command("DEL", name);
      await server.command("SET", name, "not what the script expects");
      const { waiting, storeTimeMs } = await sweep();
      expect(waiting, planted).toHaveLength(1);
      expect(waiting[0]?.runId).not.toBe(runId);
      expect(await server.command("GET", name)).toBe("not what the script expects");
      const later = await server.command<number>("ZSCORE", keys.due, `timer ${harness.tenant} ${runId} t`);
      expect(Number(later)).toBeGreaterThan(storeTimeMs);
    }
  });

  test("in what the whole partition needs fails before the first write", async () => {
    for (const name of [keys.due, keys.swept]) {
      await server.command("FLUSHALL");
      await prepare();
      await server.command("DEL", name);
      await server.command("RPUSH", name, "not what the script expects");
      const before = await takeSnapshot(server);
      await expect(sweep(), name).rejects.toThrow("WRONGTYPE");
      expect(changedKeys(before, await takeSnapshot(server)), name).toEqual([]);
    }
  });
});

test("one sweep handles what is due of every kind", async () => {
  const { tenant } = harness;
  const runId = harness.runId();
  const jobs = [jobOf(runId), jobOf(runId, { step: "claimed", claim: harness.claim(1) })];
  const timers = [{ timerId: "t", dueAtMs: 1 }];
  const deadLetters = [{ id: "l", reason: "claims_lost", body: "" } as const];
  await harness.admit(harness.newRun({ runId, change: { jobs, timers, deadLetters } }));
  const waiting = await harness.admit();
  await deliver(harness, waiting, cancelOf(harness));
  await server.command("DEL", keys.lock(runLock(waiting)));
  const ended = harness.runId();
  await harness.admit(harness.newRun({ runId: ended, change: { approvals: [approvalOf(ended)] } }));
  await harness.end(ended);
  await server.command("ZADD", keys.active, "1", "run_00_gone00001");
  const meta = await server.command<string>("HGET", keys.documents("deadLetter"), "meta:l");
  await server.command("HSET", keys.documents("deadLetter"), "meta:l", meta.replace(/ \d+ /, " 1 "));
  await hasten(
    ...[`attention ${tenant} ${waiting}`, `retention ${tenant} ${ended}`, `letter ${tenant} l`],
    ...[`proof ${tenant} `, `unclaimed ${tenant} ${jobOf(runId).jobId}`],
  );
  await harness.untilAfter((await harness.now()) + 1);
  const swept = await sweep();
  expect(swept.lostClaims).toBe(1);
  expect(swept.repairs).toEqual([{ tenant, repair: "slot_freed", runId: "run_00_gone00001" as RunId }]);
  expect(swept.unclaimed.map(({ job }) => job.jobId)).toEqual([jobOf(runId).jobId]);
  expect(swept.waiting.map((each) => each.runId).sort()).toEqual([runId, waiting].sort());
  expect(await server.command("EXISTS", keys.documents("deadLetter"), keys.documentIds("deadLetter"))).toBe(
    0,
  );
  expect(await server.command("EXISTS", keys.run(ended), keys.approvals)).toBe(0);
});
