// Calls that share one script call: each has its own decision and answer, and none feels what befalls the others.
import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { createMemoryStore } from "../../src/adapters/memory-store.ts";
import { createKeys } from "../../src/adapters/redis/keys.ts";
import { openRedisStore } from "../../src/adapters/redis/redis-store.ts";
import { systemClock } from "../../src/adapters/system/system.ts";
import { partitionLabel, partitionOf } from "../../src/domain/tenant.ts";
import { type RedisServer, startRedisServer } from "../../src/drills/servers/start-servers.ts";
import type { NewRun } from "../../src/ports/admission-operations.ts";
import { defaultStoreSettings, type Store } from "../../src/ports/store.ts";
import { call, Harness, key } from "../../src/testing/conformance/harness.ts";
import {
  activeRuns,
  changeOf,
  counts,
  deliver,
  deliveryOf,
  headerOf,
  jobOf,
  resultOf,
  runWithClaim,
} from "../../src/testing/conformance/run-steps.ts";
import { type FaultProxy, startFaultProxy } from "../support/fault-proxy.ts";
import { changedKeys, takeSnapshot } from "../support/redis-snapshot.ts";
import { silentLog } from "../support/silent-log.ts";

const prefix = "interlock";
const settings = { ...defaultStoreSettings, keysPerTenantMax: 4 };

let server: RedisServer;
let proxy: FaultProxy;
let store: Store;
/** Through the proxy. */
let remote: Store;

const open = (url: string) =>
  openRedisStore({
    urls: [url],
    mode: "standalone",
    prefix,
    settings,
    clock: systemClock,
    log: silentLog,
  });

beforeAll(async () => {
  server = await startRedisServer();
  proxy = await startFaultProxy(server.port);
  store = await open(server.url);
  remote = await open(proxy.url);
});
afterAll(async () => {
  await store?.close();
  await remote?.close();
  await proxy?.close();
  await server?.stop();
});
beforeEach(() => server.command("FLUSHALL"));

const unique = () => randomBytes(6).toString("hex");
const newHarness = (from = store) => new Harness(from, systemClock, unique());

/** Two tenants, in one partition or in two. */
function twoHarnesses({ together }: { readonly together: boolean }): [Harness, Harness] {
  const first = newHarness();
  for (;;) {
    const second = newHarness();
    if ((first.partition === second.partition) === together) return [first, second];
  }
}

const start = ({ store: on, tenant }: Harness, run: NewRun, options = call) =>
  on.admit({ tenant, run }, options);

async function scriptCalls(): Promise<number> {
  const stats = await server.command<string>("INFO", "commandstats");
  return ["eval", "evalsha"].reduce(
    (sum, name) => sum + Number(new RegExp(`cmdstat_${name}:calls=(\\d+)`).exec(stats)?.[1] ?? 0),
    0,
  );
}

/** Redis knows the scripts by then: a script that it does not know costs a call more. */
async function callsFor<Result>(act: () => Promise<Result>): Promise<{ calls: number; result: Result }> {
  const before = await scriptCalls();
  const result = await act();
  return { calls: (await scriptCalls()) - before, result };
}

const kinds = (answers: readonly { readonly kind: string }[]) => answers.map(({ kind }) => kind);

describe("calls of one turn", () => {
  test("share a script call, up to sixteen of them", async () => {
    const harness = newHarness();
    await harness.admit();
    const starts = (count: number) =>
      callsFor(() => Promise.all(Array.from({ length: count }, () => start(harness, harness.newRun()))));
    const ten = await starts(10);
    expect(ten).toMatchObject({ calls: 1, result: Array(10).fill({ kind: "admitted" }) });
    expect((await starts(1)).calls).toBe(1);
    expect((await starts(40)).calls).toBe(3);
    expect(await activeRuns(harness)).toHaveLength(52);
  });

  test("do not wait for one another when they are large", async () => {
    const harness = newHarness();
    await harness.admit();
    const large = () => harness.newRun({ records: [{ key: "input/run", body: "x".repeat(40_000) }] });
    const runs = [harness.newRun(), large(), large(), harness.newRun()];
    const { calls, result } = await callsFor(() => Promise.all(runs.map((run) => start(harness, run))));
    expect(calls).toBe(2);
    expect(kinds(result)).toEqual(Array(4).fill("admitted"));
    const loaded = await store.loadRun(
      { tenant: harness.tenant, runId: runs[2]?.runId ?? harness.runId() },
      call,
    );
    expect(loaded).toMatchObject({ kind: "run", records: [{ body: "x".repeat(40_000) }] });
  });

  test("never share one with another partition's, whose keys are elsewhere", async () => {
    const [first, second] = twoHarnesses({ together: false });
    const runs = [first, second].map((harness) => ({ harness, run: harness.newRun({ key: key("k") }) }));
    for (const { harness } of runs) await harness.admit();
    const { calls, result } = await callsFor(() =>
      Promise.all(runs.map(({ harness, run }) => start(harness, run))),
    );
    expect(calls).toBe(2);
    expect(kinds(result)).toEqual(["admitted", "admitted"]);
    for (const { harness, run } of runs) {
      expect((await headerOf(harness, run.runId)).runId).toBe(run.runId);
      const names = await server.command<string[]>("KEYS", `*${harness.tenant}*`);
      const label = `{${partitionLabel(partitionOf(harness.tenant))}}`;
      expect(names.filter((name) => !name.includes(label))).toEqual([]);
    }
  });

  test("that may take different times go out apart, each with its own deadline", async () => {
    const harness = newHarness();
    await harness.admit();
    const { calls } = await callsFor(() =>
      Promise.all(
        [1_000, 2_000, 1_000].map((deadlineMs) => start(harness, harness.newRun(), { deadlineMs })),
      ),
    );
    expect(calls).toBeGreaterThan(1);
  });
});

describe("one that fails", () => {
  test("has no effect, and leaves the answers of the others right", async () => {
    const harness = newHarness();
    await harness.admit();
    const runs = Array.from({ length: 5 }, (_, index) => harness.newRun({ key: key(`k${index}`) }));
    const { reservation } = createKeys(prefix).forTenant(harness.tenant);
    await server.command("RPUSH", reservation(key("k2").digest), "not what the script expects");
    const answers = await Promise.allSettled(runs.map((run) => start(harness, run)));
    expect(answers.map(({ status }) => status)).toEqual(
      runs.map((_, index) => (index === 2 ? "rejected" : "fulfilled")),
    );
    expect(answers[2]).toMatchObject({ reason: { message: expect.stringContaining("WRONGTYPE") } });
    const active = answers.map((answer) => (answer.status === "fulfilled" ? answer.value : {}));
    expect(active).toMatchObject([{ active: 2 }, { active: 3 }, {}, { active: 4 }, { active: 5 }]);
    const admitted = runs.filter((_, index) => index !== 2).map(({ runId }) => runId);
    expect(await activeRuns(harness)).toEqual(expect.arrayContaining(admitted));
    expect(await activeRuns(harness)).not.toContain(runs[2]?.runId);
  });

  test("is a tenant's own trouble: another tenant of the same call is served", async () => {
    const [broken, sound] = twoHarnesses({ together: true });
    const { events } = createKeys(prefix).forTenant(broken.tenant);
    await server.command("RPUSH", events, "not what the script expects");
    await sound.admit();
    const before = await takeSnapshot(server);
    const answers = await Promise.allSettled(
      [broken, sound, broken, sound].map((harness) => start(harness, harness.newRun())),
    );
    expect(answers.map(({ status }) => status)).toEqual(["rejected", "fulfilled", "rejected", "fulfilled"]);
    const changed = changedKeys(before, await takeSnapshot(server));
    expect(changed.filter((name) => name.includes(broken.tenant))).toEqual([]);
    expect(await activeRuns(sound)).toHaveLength(3);
  });

  test("may be one that was asked for wrongly: it is not sent, the others are", async () => {
    const harness = newHarness();
    await harness.admit();
    const wrong = { ...harness.newRun(), runId: "not a run" as NewRun["runId"] };
    const answers = await Promise.allSettled(
      [harness.newRun(), wrong, harness.newRun()].map((run) => start(harness, run)),
    );
    expect(answers.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
    expect(await activeRuns(harness)).toHaveLength(3);
  });

  test("may have come too late, alone", async () => {
    const harness = newHarness();
    const nowMs = await harness.now();
    const { calls, result } = await callsFor(() =>
      Promise.all(
        [{}, { notAfterMs: nowMs - 1 }, {}].map((late) =>
          start(harness, harness.newRun(), { ...call, ...late }),
        ),
      ),
    );
    expect(kinds(result)).toEqual(["admitted", "unavailable", "admitted"]);
    expect(result[1]).toEqual({ kind: "unavailable", cause: "too_late" });
    expect(calls).toBeLessThanOrEqual(2);
    expect(await activeRuns(harness)).toHaveLength(2);
  });
});

describe("a lost reply", () => {
  test("makes each of them unknown until its own time, and each is decided when it is repeated", async () => {
    const harness = newHarness(remote);
    await harness.admit();
    const runs = Array.from({ length: 6 }, (_, index) => harness.newRun({ key: key(`k${index % 3}`) }));
    const nowMs = await harness.now();
    const lost = proxy.swallowNextReply((request) => request.includes(runs[0]?.runId ?? ""));
    const ask = () =>
      Promise.all(
        runs.map((run, index) => start(harness, run, { ...call, notAfterMs: nowMs + 10_000 + index })),
      );
    const unknown = await ask();
    await lost;
    expect(unknown).toMatchObject(
      runs.map((_, index) => ({ kind: "unknown", notAfterMs: nowMs + 10_000 + index })),
    );
    // They had their effect, each once.
    expect(await activeRuns(newHarnessOf(harness))).toHaveLength(4);
    const again = await ask();
    expect(kinds(again)).toEqual([...Array(3).fill("admitted"), ...Array(3).fill("replayed")]);
    expect(again.slice(3)).toMatchObject(runs.slice(0, 3).map(({ runId }) => ({ runId })));
    expect(await activeRuns(newHarnessOf(harness))).toHaveLength(4);
  });

  /** The same tenant, without the proxy. */
  const newHarnessOf = (harness: Harness) =>
    new Harness(store, systemClock, harness.tenant.slice("tenant-".length));
});

describe("one sees what those before it did", () => {
  test("two starts with one key are one run; another request with that key is refused", async () => {
    const harness = newHarness();
    const runs = ["first", "first", "second"].map((request) => harness.newRun({ key: key("k", request) }));
    const answers = await Promise.all(runs.map((run) => start(harness, run)));
    expect(answers).toMatchObject([
      { kind: "admitted", runId: runs[0]?.runId },
      { kind: "replayed", runId: runs[0]?.runId },
      { kind: "idempotency_key_reused" },
    ]);
    expect(await activeRuns(harness)).toEqual([runs[0]?.runId]);
  });

  test("the same start twice is one run", async () => {
    const harness = newHarness();
    const run = harness.newRun();
    const answers = await Promise.all([start(harness, run), start(harness, run)]);
    expect(answers).toMatchObject(Array(2).fill({ kind: "admitted", runId: run.runId, active: 1 }));
  });

  test("a tenant's limit holds within a call, and so do the quota of its keys and the places of its topics", async () => {
    const harness = newHarness();
    await harness.set({ maxConcurrentRuns: 3, topics: { shell: { maxRunning: 2 } } });
    const started = () => {
      const runId = harness.runId();
      return harness.newRun({ runId, change: { jobs: [jobOf(runId, { claim: harness.claim() })] } });
    };
    const answers = await Promise.all(Array.from({ length: 10 }, () => start(harness, started())));
    expect(kinds(answers)).toEqual([
      ...Array(3).fill("admitted"),
      ...Array(7).fill("max_concurrent_runs_reached"),
    ]);
    expect(answers[9]).toMatchObject({ limit: 3, active: 3 });
    const claims = answers.flatMap((answer) => (answer.kind === "admitted" ? answer.claims : []));
    expect(claims).toHaveLength(2);
    expect(await counts(harness)).toContain("2");
    const other = newHarness();
    const keyed = Array.from({ length: 6 }, (_, index) => other.newRun({ key: key(`k${index}`) }));
    const kept = await Promise.all(keyed.map((run) => start(other, run)));
    expect(kinds(kept)).toEqual([
      ...Array(4).fill("admitted"),
      ...Array(2).fill("idempotency_quota_reached"),
    ]);
    expect(kept.slice(0, 4)).toMatchObject([1, 2, 3, 4].map((keysKept) => ({ keysKept })));
  });

  test("two results of one run: the first is applied, the second waits for an owner, a repeat is told so", async () => {
    const harness = newHarness();
    const runId = harness.runId();
    const jobs = ["build", "check"].map((step) => jobOf(runId, { step, claim: harness.claim() }));
    await harness.admit(harness.newRun({ runId, change: { status: "running", jobs } }));
    const deliveries = jobs.map(({ jobId, claim }) => {
      const entry = resultOf(harness, { jobId, token: claim?.token ?? harness.claim().token });
      const proposal = { commitId: harness.id("commit"), expectedVersion: 1, change: changeOf() };
      return deliveryOf(harness, runId, entry, { proposal });
    });
    const [first, second] = deliveries;
    if (first === undefined || second === undefined) throw new Error("there are two jobs");
    const { calls, result } = await callsFor(() =>
      Promise.all([first, second, first].map((request) => store.deliver(request, call))),
    );
    expect(calls).toBeLessThanOrEqual(2);
    expect(result).toMatchObject([
      { kind: "applied", version: 2 },
      {
        kind: "delivered",
        run: { kind: "owned", header: { version: 2 }, entries: [{ jobId: jobs[1]?.jobId }] },
      },
      { kind: "applied", version: 2 },
    ]);
  });

  test("a stale result beside good ones is refused alone", async () => {
    const harness = newHarness();
    const [one, two] = [await runWithClaim(harness), await runWithClaim(harness)];
    const stale = { jobId: one.jobId, token: harness.claim().token };
    const answers = await Promise.all([
      deliver(harness, one.runId, resultOf(harness, stale)),
      deliver(harness, one.runId, resultOf(harness, one)),
      deliver(harness, two.runId, resultOf(harness, two)),
    ]);
    expect(kinds(answers)).toEqual(["stale_claim", "delivered", "delivered"]);
  });
});

/** Whatever is asked at once is answered as if it had been asked one after another. */
test.each(Array.from({ length: 20 }, (_, index) => index))(
  "starts asked at once are answered as the specification answers them in turn, history %i",
  async (seed) => {
    const name = unique();
    const memory = createMemoryStore({ settings, clock: systemClock, log: silentLog });
    const settled = async (
      on: Store,
      perform: (asked: Array<() => Promise<object>>) => Promise<object[]>,
    ) => {
      const harness = new Harness(on, systemClock, name);
      const pick = numbersFrom(seed + 1);
      await harness.set({
        maxConcurrentRuns: 2 + pick(6),
        topics: { shell: { maxRunning: 1 + pick(4) } },
        ...(pick(8) === 0 ? { stopped: true } : {}),
      });
      const asked = Array.from({ length: 14 }, () => {
        const runId = harness.runId();
        const ends = pick(3) === 0;
        const job = jobOf(runId, pick(2) === 0 ? { claim: harness.claim() } : {});
        const run = harness.newRun({
          runId,
          ...(pick(2) === 0 ? { key: key(`k${pick(6)}`, `request ${pick(4)}`) } : {}),
          change: ends ? { status: "succeeded" } : { status: "running", jobs: [job] },
        });
        return () => start(harness, run);
      });
      return perform(asked);
    };
    const expected = await settled(memory, async (asked) => {
      const answers: object[] = [];
      for (const ask of asked) answers.push(await ask());
      return answers;
    });
    const found = await settled(store, (asked) => Promise.all(asked.map((ask) => ask())));
    expect(found.map(timeless)).toEqual(expected.map(timeless));
    await memory.close();
  },
);

/** Fences and the store's time differ from store to store. */
function timeless(answer: object): object {
  const { storeTimeMs: _time, ...rest } = answer as { readonly storeTimeMs?: number };
  return JSON.parse(JSON.stringify(rest, (name, value: unknown) => (name === "fence" ? 0 : value))) as object;
}

/** Numbers below a bound, the same for the same seed. */
function numbersFrom(seed: number): (below: number) => number {
  let state = seed * 2_654_435_761;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}
