// Known mistakes about what is given back, parked runs, old duplicates, clocks and a store that is away, put in on purpose.

import type { Swap } from "../planted-bug.ts";
import {
  admitsWithoutTheStore,
  childWaitsForSlot,
  guardIgnoresExpiry,
  repeatedEndFreesAnother,
  resultsRememberedForAWhile,
  resumedTakesAnotherSlot,
  retriesWithoutPause,
  staleReportFreesPlace,
} from "./broken-spec-operations.ts";

export const swappedSpec: Readonly<Record<string, Swap>> = {
  repeated_end_frees_another: {
    what: "the end of a run, told twice, frees two slots",
    caughtBy: ["INV-4"],
    table: repeatedEndFreesAnother,
  },
  stale_report_frees_place: {
    what: "a worker that was given up on frees the place of the next one",
    caughtBy: ["INV-4"],
    seedsMax: 500,
    table: staleReportFreesPlace,
  },
  child_waits_for_slot: {
    what: "a child run begins only when a slot is free, and its parent holds the last one",
    caughtBy: ["INV-28"],
    table: childWaitsForSlot,
  },
  resumed_takes_another_slot: {
    what: "a run that goes on after it was parked takes a second slot",
    caughtBy: ["INV-28"],
    table: resumedTakesAnotherSlot,
  },
  results_remembered_for_a_while: {
    what: "a result is recognised for as long as the bus would, and not by its job",
    caughtBy: ["INV-24"],
    seedsMax: 500,
    table: resultsRememberedForAWhile,
  },
  guard_ignores_expiry: {
    what: "a grant that has expired still guards writes: only a jump of the store's clock shows it (INV-16)",
    caughtBy: ["INV-12"],
    seedsMax: 500,
    table: guardIgnoresExpiry,
  },
  admits_without_the_store: {
    what: "a gateway that does not reach the store admits by itself",
    caughtBy: ["INV-29"],
    wrapStore: admitsWithoutTheStore,
  },
  retries_without_pause: {
    what: "a call without an answer is repeated at once",
    caughtBy: ["INV-29"],
    seedsMax: 500,
    wrapPorts: retriesWithoutPause,
  },
};
