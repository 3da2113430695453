// Rates and budgets on Redis: what they cost those who have none, periods as the domain has them, and a clock that is set back.
import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createKeys } from "../../src/adapters/redis/keys.ts";
import { openRedisStore } from "../../src/adapters/redis/redis-store.ts";
import { systemClock } from "../../src/adapters/system/system.ts";
import { type BudgetId, ledgerId, type Period, periodAt, tenantBudgetId } from "../../src/domain/budgets.ts";
import { type RedisServer, startRedisServer } from "../../src/drills/servers/start-servers.ts";
import { defaultStoreSettings, type Store } from "../../src/ports/store.ts";
import {
  byWorkflow,
  costs,
  held,
  jobWith,
  ledgers,
  perHour,
  ratedRun,
  report,
  runIdOf,
  saveAmount,
  startSaid,
  tenantBudget,
  usd,
  uses,
  workflowBudget,
} from "../../src/testing/conformance/budget-steps.ts";
import { Harness, only } from "../../src/testing/conformance/harness.ts";
import { callOff, claim, jobOf, sweepOnce } from "../../src/testing/conformance/run-steps.ts";
import { type SetClockHost, startSetClockHost } from "../support/set-clock-stores.ts";
import { silentLog } from "../support/silent-log.ts";

const newHarness = (store: Store) => new Harness(store, systemClock, randomBytes(6).toString("hex"));

describe("with the server's clock", () => {
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

  test("a claim and a heartbeat of a tenant without limits cost 13 and 7 commands, as before there were budgets", async () => {
    const harness = newHarness(store);
    await harness.set({ maxConcurrentRuns: 9 });
    const [first, second] = [await jobWith(harness), await jobWith(harness)];
    await claim(harness, first, harness.claim());
    const terms = harness.claim();
    const claimed = await commandsFor(async () => only(await claim(harness, second, terms), "claimed"));
    const beats = [{ jobId: second, token: terms.token, leaseMs: 60_000 }];
    const heard = await commandsFor(() =>
      store.heartbeatJobs({ tenant: harness.tenant, beats }, { deadlineMs: 5_000 }),
    );
    expect([claimed, heard]).toEqual([13, 7]);
  });

  test("what was settled leaves nothing but its ledger, and a level that is drained expires", async () => {
    const harness = newHarness(store);
    await harness.set(tenantBudget(10 * usd));
    expect(await startSaid(harness, ratedRun(harness, [perHour(9, { perMs: 100 })]))).toBe("admitted");
    const job = await held(harness, costs(2));
    expect(await report(harness, job, uses(1))).toBe("delivered");
    const { start } = createKeys("interlock").forTenant(harness.tenant);
    const names = async () => server.command<string[]>("KEYS", `${start}*:${harness.tenant}*`);
    await harness.until(async () => (await names()).every((name) => !name.includes(":rate:")));
    const limits = (await names()).filter((name) => /ledger|parked|charge/.test(name));
    expect(limits.map((name) => name.slice(start.length).split(":")[0]).sort()).toEqual([
      "ledger-ids",
      "ledgers",
    ]);
  });

  test("what a budget holds is named to nobody, and its line leaves nothing when it goes", async () => {
    const harness = newHarness(store);
    const { start, due } = createKeys("interlock").forTenant(harness.tenant);
    await harness.set(tenantBudget(5 * usd));
    const job = await held(harness, costs(5));
    const waiting = await jobWith(harness, costs(3));
    expect(await claim(harness, waiting, harness.claim())).toMatchObject({ because: "budget_held" });
    const things = await server.command<string[]>("ZRANGE", due, "0", "-1");
    expect(things.filter((each) => each.includes(waiting))).toEqual([]);
    expect(await report(harness, job, uses(1))).toBe("delivered");
    const { unclaimed } = only(await sweepOnce(harness), "swept");
    expect(unclaimed.map((each) => each.job.jobId)).toEqual([waiting]);
    expect(await server.command<string[]>("KEYS", `${start}parked*:${harness.tenant}*`)).toEqual([]);
    only(await claim(harness, waiting, harness.claim()), "claimed");
  });

  test("the line of a budget is forgotten with the last job that is called off while it waits there", async () => {
    const harness = newHarness(store);
    const { start, due } = createKeys("interlock").forTenant(harness.tenant);
    await harness.set(tenantBudget(5 * usd));
    await held(harness, costs(5));
    const waiting = [await jobWith(harness, costs(3)), await jobWith(harness, costs(2))];
    const left = [];
    for (const jobId of waiting)
      expect(await claim(harness, jobId, harness.claim())).toMatchObject({ because: "budget_held" });
    for (const jobId of waiting) {
      await callOff(harness, runIdOf(jobId), { voidJobs: [jobId] });
      const lines = await server.command<string[]>("KEYS", `${start}parked*:${harness.tenant}*`);
      const things = await server.command<string[]>("ZRANGE", due, "0", "-1");
      const visits = things.filter((each) => each.startsWith(`budget ${harness.tenant} `));
      left.push([lines.length, visits.length]);
    }
    expect(left).toEqual([
      [2, 1],
      [0, 0],
    ]);
  });

  test("a job that is born claimed is paid by its workflow's budget alone as well", async () => {
    const harness = newHarness(store);
    await saveAmount(harness, 5 * usd);
    const meter = { ...costs(2), budgets: [byWorkflow("hold")] };
    const runId = harness.runId();
    const job = jobOf(runId, { meter, claim: harness.claim() });
    await harness.admit(harness.newRun({ runId, change: { jobs: [job] } }));
    expect(await ledgers(harness)).toMatchObject([{ budget: workflowBudget, spent: 0, reserved: 2 * usd }]);
  });
});

describe("with a clock that the test sets", () => {
  let host: SetClockHost;
  let store: Store;
  beforeAll(async () => {
    host = await startSetClockHost("redis");
    store = await host.open({ ...defaultStoreSettings, sweepEveryMs: 0 });
  });
  afterAll(() => host?.close());

  test("hours, days, weeks and months begin where the domain says, at edges between 2031 and 2104", async () => {
    const harness = new Harness(store, host.clock, randomBytes(6).toString("hex"));
    const periods: readonly Period[] = ["hour", "day", "week", "month"];
    const budgets = Object.fromEntries(
      periods.map((per) => [per, { unit: "usd", amount: usd, per, atLimit: "hold" }] as const),
    );
    await harness.set({ budgets });
    const ids = periods.map((per): [Period, BudgetId] => [per, tenantBudgetId(per, { unit: "usd", per })]);
    for (const year of [2031, 2032, 2048, 2096, 2099, 2100, 2101, 2104]) {
      for (const [month, day] of [
        [0, 1],
        [1, 28],
        [1, 29],
        [2, 1],
        [3, 30],
        [4, 1],
        [11, 31],
      ] as const) {
        for (const offsetMs of [-1, 0]) {
          const atMs = Date.UTC(year, month, day) + offsetMs;
          await host.clock.pass(atMs - host.clock.wallMs());
          await held(harness);
          const found = new Set((await ledgers(harness)).map(({ ledger }) => ledger));
          const expected = ids.map(([per, id]) => ledgerId(id, periodAt(per, atMs).startMs));
          expect(
            expected.filter((ledger) => !found.has(ledger)),
            new Date(atMs).toISOString(),
          ).toEqual([]);
          await store.sweep({ partition: harness.partition }, { deadlineMs: 5_000 });
        }
      }
    }
  });

  test("a clock that is set back by an hour blocks nobody for longer than the level itself", async () => {
    const harness = new Harness(store, host.clock, randomBytes(6).toString("hex"));
    const rates = [perHour(1, { perMs: 1_000 })];
    const start = () => startSaid(harness, ratedRun(harness, rates));
    expect(await start()).toBe("admitted");
    await host.clock.pass(-3_600_000);
    expect(await start()).toBe("start_rate_exceeded 1000");
    await host.clock.pass(999);
    expect(await start()).toBe("start_rate_exceeded 1");
    await host.clock.pass(1);
    expect(await start()).toBe("admitted");
  });
});
