// What every store must do with places when it is swept: what runs out or is removed frees its place.
import assert from "node:assert/strict";
import type { RunId } from "../../domain/run.ts";
import { type ConformanceCase, call, only } from "./harness.ts";
import { claimAll, counts, inPool, runWith } from "./limit-steps.ts";
import { sweepUntil } from "./sweep-steps.ts";

/** For a store that is swept all the time. */
export const hastyLimitCases: readonly ConformanceCase[] = [
  {
    name: "a claim that runs out frees its place",
    async check(harness) {
      await harness.set({ topics: { shell: { maxRunning: 1 } }, pools: { gpu: { maxRunning: 1 } } });
      const { jobIds } = await runWith(harness, 2);
      const terms = () => ({ ...harness.claim(20), pool: "gpu", worker: 'w "1" x' });
      assert.deepEqual(
        (await claimAll(harness, jobIds, terms)).map(({ said }) => said),
        ["claimed", "topic_full"],
      );
      const { waiting } = await sweepUntil(harness, (sum) => sum.lostClaims > 0);
      assert.equal(await counts(harness, "shell", "gpu"), "0/1 0");
      assert.equal(
        (await claimAll(harness, jobIds.slice(1), () => inPool(harness, "gpu")))[0]?.said,
        "claimed",
      );
      const take = {
        tenant: harness.tenant,
        runId: waiting[0]?.runId as RunId,
        take: harness.take(),
        records: [],
      };
      const { entries } = only(await harness.store.takeRun(take, call), "owned");
      assert.equal((entries[0] as { worker?: string } | undefined)?.worker, 'w "1" x');
    },
  },
  {
    name: "a run that is removed with a job that still runs takes its place along",
    async check(harness) {
      await harness.set({ topics: { shell: { maxRunning: 1 } } });
      const { runId, jobIds } = await runWith(harness, 1);
      await claimAll(harness, jobIds);
      await harness.end(runId, "failed");
      await sweepUntil(harness, (sum) => sum.removedRuns > 0);
      assert.equal(await counts(harness), "0/0 0");
    },
  },
];
