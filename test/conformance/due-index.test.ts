// What stands in the index of due things: only what a sweep must still look at, at its present time.
import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createMemoryStore, MemoryRecords } from "../../src/adapters/memory-store.ts";
import { readDueMember } from "../../src/adapters/operations/due.ts";
import { createKeys } from "../../src/adapters/redis/keys.ts";
import { openRedisStore } from "../../src/adapters/redis/redis-store.ts";
import { systemClock } from "../../src/adapters/system/system.ts";
import { partitionLabel } from "../../src/domain/tenant.ts";
import { startRedisServer } from "../../src/drills/servers/start-servers.ts";
import { defaultStoreSettings, type Store } from "../../src/ports/store.ts";
import { Harness, only } from "../../src/testing/conformance/harness.ts";
import {
  beat,
  cancelOf,
  claim,
  commit,
  deliverAndOwn,
  jobOf,
  runWithClaim,
  sweepOnce,
} from "../../src/testing/conformance/run-steps.ts";
import { silentLog } from "../support/silent-log.ts";

type DueRow = { readonly kind: string; readonly atMs: number };

/** A store, and what its index of due things says of the harness's partition, the soonest first. */
type IndexedStore = {
  readonly store: Store;
  due(harness: Harness): Promise<readonly DueRow[]>;
  close(): Promise<void>;
};

/** SQLite has the same functions over other records. */
const openStores: Readonly<Record<string, () => Promise<IndexedStore>>> = {
  async memory() {
    const records = new MemoryRecords();
    const store = createMemoryStore({ clock: systemClock, settings: defaultStoreSettings, records });
    return {
      store,
      due: async ({ partition }) =>
        records.scan("due", partitionLabel(partition), "", 1_000).map(({ member }) => {
          const { atMs, thing } = readDueMember(member);
          return { kind: thing.kind, atMs };
        }),
      close: () => store.close(),
    };
  },
  async redis() {
    const server = await startRedisServer();
    const common = { mode: "standalone", prefix: "interlock", clock: systemClock, log: silentLog } as const;
    const store = await openRedisStore({ ...common, settings: defaultStoreSettings, urls: [server.url] });
    return {
      store,
      async due({ tenant }) {
        const key = createKeys("interlock").forTenant(tenant).due;
        const rows = await server.command<[string, number][]>("ZRANGE", key, "0", "-1", "WITHSCORES");
        return rows.map(([member, atMs]) => ({ kind: member.split(" ")[0] ?? "", atMs }));
      },
      async close() {
        await store.close();
        await server.stop();
      },
    };
  },
};

describe.each(Object.keys(openStores))("the index of due things in %s", (name) => {
  let indexed: IndexedStore;
  beforeAll(async () => {
    const open = openStores[name];
    if (open === undefined) throw new Error(name);
    indexed = await open();
  });
  afterAll(() => indexed?.close());

  const used = new Set<number>();
  /** In a partition of its own: the index has what all its tenants wait for. */
  function begin(): Harness {
    const harness = new Harness(indexed.store, systemClock, randomBytes(6).toString("hex"));
    if (used.has(harness.partition)) return begin();
    used.add(harness.partition);
    return harness;
  }
  const kinds = async (harness: Harness) => (await indexed.due(harness)).map(({ kind }) => kind);

  test("has a run with entries, which a sweep before its time leaves there", async () => {
    const harness = begin();
    await harness.admit(harness.newRun({ start: "inbox" }));
    const before = await indexed.due(harness);
    expect(before[0]).toMatchObject({ kind: "attention" });
    const { storeTimeMs } = only(await sweepOnce(harness), "swept");
    expect(before[0]?.atMs).toBeGreaterThan(storeTimeMs);
    expect(before[0]?.atMs).toBeLessThanOrEqual(storeTimeMs + 5_000);
    expect(await indexed.due(harness)).toEqual(before);
  });

  test("keeps what one sweep did not get to", async () => {
    const harness = begin();
    const timers = Array.from({ length: 130 }, (_, index) => ({ timerId: `t${index}`, dueAtMs: index + 1 }));
    await harness.admit(harness.newRun({ change: { timers } }));
    only(await sweepOnce(harness), "swept");
    const left = (await indexed.due(harness)).filter(({ kind }) => kind === "timer");
    expect(left).toHaveLength(30);
    expect(left[0]?.atMs).toBe(101);
  });

  test("has the proof of a tenant at its first time, however many runs begin", async () => {
    const harness = begin();
    await harness.admit();
    const proof = (await indexed.due(harness)).filter(({ kind }) => kind === "proof");
    await harness.untilAfter(await harness.now());
    await harness.admit();
    expect((await indexed.due(harness)).filter(({ kind }) => kind === "proof")).toEqual(proof);
  });

  test("has no run whose entries were applied, or whose end discarded them", async () => {
    const harness = begin();
    const applied = await harness.admit(harness.newRun({ start: "inbox" }));
    const first = await deliverAndOwn(harness, applied, cancelOf(harness));
    only(await commit(harness, applied, first.guard, { consumed: 2 }), "committed");
    const ended = await harness.admit(harness.newRun({ start: "inbox" }));
    const second = await deliverAndOwn(harness, ended, cancelOf(harness));
    only(await commit(harness, ended, second.guard, { change: { status: "cancelled" } }), "committed");
    expect(await kinds(harness)).not.toContain("attention");
  });

  test("has no claim at its old time, and no job that somebody claimed", async () => {
    const harness = begin();
    const kept = await runWithClaim(harness, 3_000);
    await beat(harness, kept.jobId, kept.token, 600_000);
    const voided = await runWithClaim(harness, 3_000);
    const taken = jobOf(voided.runId, { step: "taken" });
    await harness.commit(voided.runId, { voidJobs: [voided.jobId], jobs: [taken] });
    only(await claim(harness, taken.jobId, harness.claim(600_000)), "claimed");
    const claims = (await indexed.due(harness)).filter(({ kind }) => kind === "claim");
    expect(claims).toHaveLength(2);
    expect(claims[0]?.atMs).toBeGreaterThan((await harness.now()) + 500_000);
    expect(await kinds(harness)).not.toContain("unclaimed");
  });
});
