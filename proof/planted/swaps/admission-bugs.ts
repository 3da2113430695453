// Swaps of locks, admission, keys and slots: operations, stores and clocks with one mistake each.
import type { Swap } from "../planted-bug.ts";
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

export const swappedAdmission: Readonly<Record<string, Swap>> = {
  release_without_token: {
    what: "a release frees the lock without comparing its token",
    caughtBy: ["INV-13"],
    table: releaseWithoutToken,
  },
  renew_ignores_not_owned: {
    what: "a renewal that was refused counts as one that succeeded",
    caughtBy: ["INV-13"],
    wrapStore: renewIgnoringRefusal,
  },
  unknown_as_busy: {
    what: "no answer in time is taken for a refusal",
    caughtBy: ["INV-7"],
    wrapStore: unknownAsRefusal,
  },
  unknown_as_success: {
    what: "no answer in time is taken for an admission",
    caughtBy: ["INV-18", "INV-29"],
    wrapStore: unknownAsSuccess,
  },
  unknown_end_as_unavailable: {
    what: "an end without an answer is taken for one that did not happen",
    caughtBy: ["INV-18"],
    wrapStore: unknownEndAsUnavailable,
  },
  unknown_never_answered: {
    what: "a release waits for its answer without an end",
    caughtBy: ["liveness"],
    wrapStore: waitForEver,
  },
  cleanup_on_unknown: {
    what: "the key is given back when the outcome of the creation is unknown",
    caughtBy: ["INV-6", "INV-7", "INV-10"],
    table: cancelAnything,
    wrapStore: cleanupOnUnknown,
  },
  count_then_create: {
    what: "the limit is compared with a count taken before, not inside the operation",
    caughtBy: ["INV-1", "INV-7"],
    table: noLimitInside,
    wrapStore: countBeforeAdmit,
  },
  create_without_limit_check: {
    what: "the lock strategy trusts its own count: createRun does not look at the limit",
    caughtBy: ["INV-1"],
    table: noLimitInCreateRun,
  },
  slots_miscounted: {
    what: "the count of active runs is one too high",
    caughtBy: ["INV-19"],
    table: countedOneMore,
  },
  deadline_after_reply: {
    what: "a lease counts from the reply instead of from the request",
    caughtBy: ["INV-14"],
    wrapPorts: countingFromReply,
  },
  wall_clock_lease: {
    what: "a lease is measured by the wall clock alone",
    caughtBy: ["INV-14"],
    wrapPorts: readingTheWallClock,
  },
  global_idempotency_key: {
    what: "one key is one reservation for all tenants",
    caughtBy: ["INV-9"],
    table: keysOfEverybody,
  },
  skip_fence_comparison: {
    what: "a write under a lock is accepted without comparing token and fence",
    caughtBy: ["INV-12", "INV-13"],
    table: noGuard,
  },
  late_tries_forgotten: {
    what: "a refusal is believed although an earlier try is still on its way",
    caughtBy: ["INV-7"],
    wrapStore: forgetLateTries,
  },
  fingerprint_ignored: {
    what: "a key replays its run for every request",
    caughtBy: ["INV-8"],
    table: anyFingerprint,
  },
  pending_key_never_dies: {
    what: "a reservation whose owner is gone still blocks its key",
    caughtBy: ["INV-19"],
    table: pendingForEver,
  },
  key_expires_early: {
    what: "the retention of a key begins with its run",
    caughtBy: ["INV-10"],
    table: keyExpiresFromTheStart,
  },
  key_freed_at_end: {
    what: "the end of a run frees its key at once",
    caughtBy: ["INV-6", "INV-10"],
    table: keyFreedAtTheEnd,
  },
  slot_kept_after_end: {
    what: "ending a run does not free its slot",
    caughtBy: ["INV-2"],
    table: slotKept,
  },
  event_lost: {
    what: "the end of a run is not written to the events",
    caughtBy: ["INV-17"],
    table: eventLost,
  },
  fence_starts_again: {
    what: "the fence is a small counter that starts again",
    caughtBy: ["INV-11"],
    table: smallFences,
  },
  acquire_ignores_holder: {
    what: "a lock is granted although somebody holds it",
    caughtBy: ["INV-12"],
    table: everybodyAcquires,
  },
  lock_without_ttl: {
    what: "a lock is kept until it is released",
    caughtBy: ["INV-12", "INV-13", "INV-15", "INV-19"],
    table: endlessLocks,
  },
};
