// Seeds that once broke something: none of them may break anything again.
import { expect, test } from "vitest";
import { describeBroken } from "../../proof/simulation/command/broken-seed.ts";
import { readRegressions } from "../../proof/simulation/command/regressions.ts";
import { simulateWork } from "../../proof/simulation/command/seed-work.ts";

const timeoutMs = 60_000;

test(
  "no seed that once found a bug finds it again",
  async () => {
    for (const { seed, why, ...work } of readRegressions()) {
      const { violation, ...report } = await simulateWork(seed, work);
      const broken = violation === undefined ? "" : describeBroken({ ...report, violation }, work);
      expect(broken, why).toBe("");
    }
  },
  timeoutMs,
);
