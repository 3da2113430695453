// The same random operation sequences give the same outcomes on all stores, also when calls are executed twice.
import { test } from "vitest";
import { sequences } from "../support/differential-commands.ts";
import { proveSame } from "../support/differential-suite.ts";

test("random sequences give the same outcomes on every store", { timeout: 400_000 }, () =>
  proveSame(sequences, 150),
);
