// The same comparison of all stores, about long queues, on a clock that the test sets: runs wait, age, and run out of time.
import { afterAll, beforeAll, test } from "vitest";
import { type Candidate, queueSettings } from "../support/differential.ts";
import { queueSequences } from "../support/differential-gate-commands.ts";
import { proveAmong } from "../support/differential-proof.ts";
import { type SetClockHost, startSetClockHost } from "../support/set-clock-stores.ts";
import { storeNames } from "../support/stores.ts";

const hosts: SetClockHost[] = [];
const candidates: Candidate[] = [];

beforeAll(async () => {
  for (const name of ["memory", ...storeNames] as const) {
    const host = await startSetClockHost(name);
    hosts.push(host);
    candidates.push({ name, store: await host.open(queueSettings) });
  }
});
afterAll(() => {
  return Promise.all(hosts.map((host) => host.close()));
});

/** All stores have the same time. */
const clock = {
  monotonicMs: () => hosts[0]?.clock.monotonicMs() ?? 0,
  async sleep(ms: number) {
    await Promise.all(hosts.map((host) => host.clock.pass(ms)));
  },
};

test("random queues at gates give the same outcomes on every store", { timeout: 400_000 }, () =>
  proveAmong(candidates, queueSequences, { numRuns: 150, clock }),
);
