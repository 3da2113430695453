// The same comparison of all stores, about trees of runs, repairs of repairs and held jobs; a file of its own, so that both run side by side.
import { test } from "vitest";
import { heldSequences, repairSequences, treeSequences } from "../support/differential-commands.ts";
import { proveSame } from "../support/differential-suite.ts";

test("random trees of runs give the same outcomes on every store", { timeout: 400_000 }, () =>
  proveSame(treeSequences, 80),
);

test("random repairs of repairs give the same outcomes on every store", { timeout: 400_000 }, () =>
  proveSame(repairSequences, 20),
);

test("random verdicts on held jobs give the same outcomes on every store", { timeout: 400_000 }, () =>
  proveSame(heldSequences, 40),
);
