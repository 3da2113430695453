// Random starts, claims and reports give the same levels, ledgers and parked jobs on every store, on a clock that the test sets.
import { randomBytes } from "node:crypto";
import fc from "fast-check";
import { afterAll, beforeAll, test } from "vitest";
import { defaultStoreSettings } from "../../src/ports/store.ts";
import { type BudgetCandidate, budgetSequences, compareBudgets } from "../support/differential-budgets.ts";
import { type SetClockHost, startSetClockHost } from "../support/set-clock-stores.ts";
import { storeNames } from "../support/stores.ts";

/** Sweeps are never too early, and few of a tenant may wait. */
const settings = {
  ...defaultStoreSettings,
  ...{ sweepEveryMs: 0, attentionMs: 100, republishAfterMs: 10_000, queuedPerTenantMax: 4 },
};

const hosts: SetClockHost[] = [];
const candidates: BudgetCandidate[] = [];

beforeAll(async () => {
  for (const name of ["memory", ...storeNames] as const) {
    const host = await startSetClockHost(name);
    hosts.push(host);
    candidates.push({ name, store: await host.open(settings), clock: host.clock });
  }
});
afterAll(() => Promise.all(hosts.map((host) => host.close())));

test("random rates and budgets do the same on every store", { timeout: 400_000 }, () =>
  fc.assert(
    fc.asyncProperty(budgetSequences, (commands) =>
      compareBudgets(candidates, commands, randomBytes(6).toString("hex")),
    ),
    { seed: 20261119, numRuns: 200, interruptAfterTimeLimit: 240_000, markInterruptAsFailure: true },
  ),
);
