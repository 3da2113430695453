// Known mistakes, put in on purpose at composition: each shows that the checks would notice it in the product.
import type { Operations } from "../../../src/adapters/operations/perform.ts";
import type { Database } from "../../../src/adapters/sqlite/driver.ts";
import type { startRun } from "../../../src/control/admission/start-run.ts";
import type { Bus } from "../../../src/ports/bus.ts";
import type { Ports } from "../../../src/ports/ports.ts";
import type { Store } from "../../../src/ports/store.ts";
import type { HoldsBack } from "../../simulation/faults/loss-faults.ts";
import type { InvariantName } from "../../simulation/invariants/invariants.ts";
import type { Difference } from "../../simulation/isolation.ts";
import type { Swarm } from "../../simulation/swarm.ts";
import { countingFromReply, readingTheWallClock } from "./broken-clocks.ts";
import {
  anyFingerprint,
  cancelAnything,
  countedOneMore,
  endlessLocks,
  eventLost,
  everybodyAcquires,
  keyExpiresFromTheStart,
  keyFreedAtTheEnd,
  keysOfEverybody,
  noGuard,
  noLimitInCreateRun,
  noLimitInside,
  pendingForEver,
  releaseWithoutToken,
  slotKept,
  smallFences,
} from "./broken-operations.ts";
import {
  cleanupOnUnknown,
  countBeforeAdmit,
  forgetLateTries,
  renewIgnoringRefusal,
  unknownAsRefusal,
  unknownAsSuccess,
  unknownEndAsUnavailable,
  waitForEver,
} from "./broken-stores.ts";
import { plantedBusBugs } from "./bus-bugs.ts";
import { plantedChildBugs } from "./child-bugs.ts";
import { plantedDurabilityBugs } from "./durability-bugs.ts";
import { plantedFileBugs } from "./file-bugs.ts";
import { plantedIsolationBugs } from "./isolation-bugs.ts";
import { plantedOriginals } from "./originals.ts";
import { plantedPlaceBugs } from "./place-bugs.ts";
import { plantedRunBugs } from "./run-bugs.ts";
import { plantedSpecBugs } from "./spec-bugs.ts";

export type PlantedBug = {
  readonly mistake: string;
  /** The invariants that can be the first to notice. */
  readonly caughtBy: readonly InvariantName[];
  /** Seeds within which it must be found: a hundred, unless it needs a coincidence that few seeds have. */
  readonly seedsMax?: number;
  readonly table?: Operations;
  /** Goes around the store of every process. */
  readonly wrapStore?: (store: Store) => Store;
  /** Whose answers wait until what they tell of is durable. */
  readonly holdsBack?: HoldsBack;
  /** Goes around the ports of every single flow. */
  readonly wrapPorts?: (ports: Ports) => Ports;
  /** What the locks protect takes every write. */
  readonly sinkDoesNotCompare?: true;
  /** Goes around the bus of every process. */
  readonly wrapBus?: (bus: Bus) => Bus;
  /** What callers of bare runs call instead. */
  readonly startRun?: typeof startRun;
  /** Makes its seeds be about what is broken. */
  readonly swarm?: (swarm: Swarm) => Swarm;
  /** Its seeds compare a tenant's day with itself. */
  readonly compares?: Difference;
  /** Goes around the connection to the file; the seeds then run on SQLite. */
  readonly wrapDatabase?: (database: Database) => Database;
};

const plantedGateBugs: Readonly<Record<string, PlantedBug>> = {
  release_without_token: {
    mistake: "a release frees the lock, whoever holds it",
    caughtBy: ["INV-13"],
    table: releaseWithoutToken,
  },
  renew_ignores_not_owned: {
    mistake: "a renewal that was refused counts as one that succeeded",
    caughtBy: ["INV-13"],
    wrapStore: renewIgnoringRefusal,
  },
  unknown_as_busy: {
    mistake: "no answer in time is taken for a refusal",
    caughtBy: ["INV-7"],
    wrapStore: unknownAsRefusal,
  },
  unknown_as_success: {
    mistake: "no answer in time is taken for an admission",
    caughtBy: ["INV-18", "INV-29"],
    wrapStore: unknownAsSuccess,
  },
  unknown_end_as_unavailable: {
    mistake: "an end without an answer is taken for one that did not happen",
    caughtBy: ["INV-18"],
    wrapStore: unknownEndAsUnavailable,
  },
  unknown_never_answered: {
    mistake: "a release waits for its answer without an end",
    caughtBy: ["liveness"],
    wrapStore: waitForEver,
  },
  cleanup_on_unknown: {
    mistake: "the key is given back when the outcome of the creation is unknown",
    caughtBy: ["INV-6", "INV-7", "INV-10"],
    table: cancelAnything,
    wrapStore: cleanupOnUnknown,
  },
  count_then_create: {
    mistake: "the limit is compared with a count taken before, not inside the operation",
    caughtBy: ["INV-1", "INV-7"],
    table: noLimitInside,
    wrapStore: countBeforeAdmit,
  },
  create_without_limit_check: {
    mistake: "the lock strategy trusts its own count: createRun does not look at the limit",
    caughtBy: ["INV-1"],
    table: noLimitInCreateRun,
  },
  slots_miscounted: {
    mistake: "the count of active runs is one too high",
    caughtBy: ["INV-19"],
    table: countedOneMore,
  },
  deadline_after_reply: {
    mistake: "a lease counts from the reply instead of from the request",
    caughtBy: ["INV-14"],
    wrapPorts: countingFromReply,
  },
  wall_clock_lease: {
    mistake: "a lease is measured by the wall clock alone",
    caughtBy: ["INV-14"],
    wrapPorts: readingTheWallClock,
  },
  global_idempotency_key: {
    mistake: "one key is one reservation for all tenants",
    caughtBy: ["INV-9"],
    table: keysOfEverybody,
  },
  skip_fence_comparison: {
    mistake: "a write under a lock is accepted without comparing token and fence",
    caughtBy: ["INV-12", "INV-13"],
    table: noGuard,
  },
  late_tries_forgotten: {
    mistake: "a refusal is believed although an earlier try is still on its way",
    caughtBy: ["INV-7"],
    wrapStore: forgetLateTries,
  },
  fingerprint_ignored: {
    mistake: "a key replays its run for every request",
    caughtBy: ["INV-8"],
    table: anyFingerprint,
  },
  pending_key_never_dies: {
    mistake: "a reservation whose owner is gone still blocks its key",
    caughtBy: ["INV-19"],
    table: pendingForEver,
  },
  key_expires_early: {
    mistake: "the retention of a key begins with its run",
    caughtBy: ["INV-10"],
    table: keyExpiresFromTheStart,
  },
  key_freed_at_end: {
    mistake: "the end of a run frees its key at once",
    caughtBy: ["INV-6", "INV-10"],
    table: keyFreedAtTheEnd,
  },
  slot_kept_after_end: {
    mistake: "ending a run does not free its slot",
    caughtBy: ["INV-2"],
    table: slotKept,
  },
  event_lost: {
    mistake: "the end of a run is not written to the events",
    caughtBy: ["INV-17"],
    table: eventLost,
  },
  fence_starts_again: {
    mistake: "the fence is a small counter that starts again",
    caughtBy: ["INV-11"],
    table: smallFences,
  },
  acquire_ignores_holder: {
    mistake: "a lock is granted although somebody holds it",
    caughtBy: ["INV-12"],
    table: everybodyAcquires,
  },
  lock_without_ttl: {
    mistake: "a lock is kept until it is released",
    caughtBy: ["INV-12", "INV-13", "INV-15", "INV-19"],
    table: endlessLocks,
  },
};

export const plantedBugs: Readonly<Record<string, PlantedBug>> = {
  ...plantedGateBugs,
  ...plantedRunBugs,
  ...plantedChildBugs,
  ...plantedPlaceBugs,
  ...plantedFileBugs,
  ...plantedDurabilityBugs,
  ...plantedSpecBugs,
  ...plantedIsolationBugs,
  ...plantedOriginals,
  ...plantedBusBugs,
};
