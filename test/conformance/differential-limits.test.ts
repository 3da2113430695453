// The comparison of all stores about rates, budgets and charges, with a clock that the test sets: levels, times and periods are equal to the millisecond.
import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createMemoryStore } from "../../src/adapters/memory-store.ts";
import { defaultStoreSettings, type StoreSettings } from "../../src/ports/store.ts";
import { Harness } from "../../src/testing/conformance/harness.ts";
import { limitSequences, type Player, play, playerOf } from "../support/differential-limits.ts";
import { SetClock } from "../support/set-clock.ts";
import { type SetClockHost, startSetClockHost } from "../support/set-clock-stores.ts";

const settings: StoreSettings = {
  ...defaultStoreSettings,
  ...{ sweepEveryMs: 1, attentionMs: 5_000, republishAfterMs: 50_000, runRetentionMs: 3_600_000 },
};

let host: SetClockHost;
beforeAll(async () => {
  host = await startSetClockHost("redis");
});
afterAll(() => host?.close());

let made = 0;
const stats: Record<string, number> = {};
afterAll(() => console.log(JSON.stringify(stats, undefined, 0).replaceAll(/"[^"]*":0,/g, "")));

test("random starts, claims, heartbeats, results and periods give the same answers in memory and on Redis", {
  timeout: 400_000,
}, async () => {
  const property = fc.asyncProperty(limitSequences, async (commands) => {
    made += 1;
    const clock = new SetClock();
    await clock.pass(host.clock.wallMs() - clock.wallMs());
    const memory = createMemoryStore({ clock, settings });
    const redis = await host.open(settings);
    const unique = `x${made}`;
    const players: readonly Player[] = [
      playerOf(new Harness(memory, clock, unique), (ms) => clock.pass(ms)),
      playerOf(new Harness(redis, clock, unique), (ms) => host.clock.pass(ms)),
    ];
    try {
      for (const command of commands) {
        const [expected, found] = [
          await play(players[0] as Player, command),
          await play(players[1] as Player, command),
        ];
        expect(found).toBe(expected);
        if (process.env.STATS) for (const w of ["budget_held","topic_rate","overBudget","charged","start_rate_exceeded","budget_exhausted","startsAtMs","stale_claim","budget_crossed","run_ended","parkedFor","queue_full","timed_out","Error", "handed_over", '"applied"', "cancelled", '"rateLeft"',"lost",'"deleted"']) stats[`${command.kind} ${w}`] = (stats[`${command.kind} ${w}`] ?? 0) + (found.slice(0, 1500).includes(w) ? 1 : 0);
      }
    } finally {
      await Promise.all([memory.close(), redis.close()]);
    }
  });
  await fc.assert(property, { numRuns: Number(process.env.RUNS ?? 60), ...(process.env.SEED ? { seed: Number(process.env.SEED) } : {}) });
});
