// Gates on Redis: what they cost those who have none, that a grant costs the same however many wait, and calls that share a script call.
import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { openRedisStore } from "../../src/adapters/redis/redis-store.ts";
import { systemClock } from "../../src/adapters/system/system.ts";
import { type RedisServer, startRedisServer } from "../../src/drills/servers/start-servers.ts";
import { defaultStoreSettings, type Store } from "../../src/ports/store.ts";
import {
  assertSound,
  endRun,
  gate,
  runAt,
  start,
  startAt,
  tenantGate,
} from "../../src/testing/conformance/gate-steps.ts";
import { Harness, key, only } from "../../src/testing/conformance/harness.ts";
import { changeOf, deliver, jobOf, resultOf } from "../../src/testing/conformance/run-steps.ts";
import { silentLog } from "../support/silent-log.ts";

let server: RedisServer;
let store: Store;
beforeAll(async () => {
  server = await startRedisServer();
  const settings = { ...defaultStoreSettings, attentionMs: 60_000 };
  const common = { mode: "standalone", prefix: "interlock", clock: systemClock, log: silentLog } as const;
  store = await openRedisStore({ ...common, settings, urls: [server.url] });
});
afterAll(async () => {
  await store?.close();
  await server?.stop();
});
beforeEach(() => server.command("FLUSHALL"));

const newHarness = () => new Harness(store, systemClock, randomBytes(6).toString("hex"));

/** Commands that the server executed meanwhile, those inside scripts included. */
async function commandsFor(act: () => Promise<unknown>): Promise<number> {
  const before = await commandsSoFar();
  await act();
  return (await commandsSoFar()) - before;
}

async function commandsSoFar(): Promise<number> {
  const stats = await server.command<string>("INFO", "commandstats");
  const counts = [...stats.matchAll(/cmdstat_(?!info|ping|hello|eval)[a-z|]+:calls=(\d+)/g)];
  return counts.reduce((sum, [, calls]) => sum + Number(calls), 0);
}

describe("a tenant without gates", () => {
  test("pays for no command: a start, a result and the end of a run cost 17, 11 and 16, as before there were gates", async () => {
    const harness = newHarness();
    await harness.set({ maxConcurrentRuns: 9 });
    const claimed = () => {
      const runId = harness.runId();
      const claim = harness.claim();
      const run = harness.newRun({ runId, key: key(runId), change: { jobs: [jobOf(runId, { claim })] } });
      const entry = resultOf(harness, { jobId: jobOf(runId).jobId, token: claim.token });
      return { run, runId, entry };
    };
    const proposalOf = (change: Parameters<typeof changeOf>[0]) => ({
      proposal: { expectedVersion: 1, commitId: harness.id("commit"), change: changeOf(change) },
    });
    const [first, second, third] = [claimed(), claimed(), claimed()];
    for (const { run } of [first, second]) await harness.admit(run);
    expect(await commandsFor(() => harness.admit(third.run))).toBe(17);
    const goesOn = proposalOf({ status: "running", jobs: [jobOf(first.runId, { step: "next" })] });
    const result = commandsFor(async () =>
      only(await deliver(harness, first.runId, first.entry, goesOn), "applied"),
    );
    expect(await result).toBe(11);
    const ends = proposalOf({ status: "succeeded" });
    const end = commandsFor(async () =>
      only(await deliver(harness, second.runId, second.entry, ends), "applied"),
    );
    expect(await end).toBe(16);
  });
});

describe("a grant", () => {
  test("costs as many commands with 2,000 who wait as with ten", async () => {
    const costs: number[] = [];
    for (const waiting of [10, 2_000]) {
      const harness = newHarness();
      await harness.set({ maxConcurrentRuns: 1 });
      const first = await startAt(harness, []);
      const others = Array.from({ length: waiting }, (_, index) =>
        start(harness, runAt(harness, [], { fairnessKey: `f${index % 5}`, queueMax: 10_000 })),
      );
      for (const answer of await Promise.all(others)) expect(answer.kind).toBe("queued");
      costs.push(await commandsFor(() => endRun(harness, first)));
    }
    console.log(`the end of a run that hands on its place: ${costs[0]} commands`);
    expect(costs[1]).toBe(costs[0]);
  });
});

describe("calls that share a script call", () => {
  test("see the places that those before them took, and the queue that they began", async () => {
    const harness = newHarness();
    await harness.set({ maxConcurrentRuns: 3 });
    const runs = Array.from({ length: 16 }, () => runAt(harness, []));
    const answers = await Promise.all(runs.map((run) => start(harness, run)));
    expect(answers.map(({ kind }) => kind)).toEqual([
      ...Array(3).fill("admitted"),
      ...Array(13).fill("queued"),
    ]);
    expect(answers.slice(3).map((answer) => (answer as { position: number }).position)).toEqual(
      Array.from({ length: 13 }, (_, index) => index + 1),
    );
    await assertSound(harness);
  });

  test("end runs together: each hands on its own place, and nobody gets one twice", async () => {
    const harness = newHarness();
    await harness.set({ maxConcurrentRuns: 5 });
    const runs = Array.from({ length: 15 }, () => runAt(harness, []));
    for (const run of runs) await start(harness, run);
    const woken = await Promise.all(runs.slice(0, 5).map(({ runId }) => endRun(harness, runId)));
    const expected = runs.slice(5, 10).map(({ runId }) => runId);
    expect(woken.flat().sort()).toEqual(expected.sort());
    expect((await gate(harness, tenantGate)).state).toMatchObject({ active: 5, waiting: 5 });
    await assertSound(harness);
  });
});
