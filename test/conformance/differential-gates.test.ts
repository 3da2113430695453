// The same comparison of all stores, about gates and the runs that wait at them; a file of its own, so that both run side by side.
import { test } from "vitest";
import { gateSequences } from "../support/differential-gate-commands.ts";
import { proveSame } from "../support/differential-suite.ts";

test("random gates, queues and moves give the same outcomes on every store", { timeout: 400_000 }, () =>
  proveSame(gateSequences, 120),
);
