// The original mechanisms, put in on purpose: the unfenced lock with its reservation, and the retried results with their run lock.

import { asBaseline } from "../../simulation/narrow-swarm.ts";
import type { Swarm } from "../../simulation/swarm.ts";
import type { Swap } from "../planted-bug.ts";
import { noGuard } from "./broken-operations.ts";
import {
  type OriginalAdmission,
  originalCommands,
  originalStart,
  withPlainRelease,
} from "./original-admission.ts";
import {
  freeingApart,
  lookingFirst,
  originalResultCommands,
  slotFreedApart,
  threeStrikes,
  warnOnly,
} from "./original-results.ts";

const asWritten: OriginalAdmission = { wait: "fixed", cleanup: true, keysOf: "everybody" };

function admission(what: string, variant: OriginalAdmission, caughtBy: Swap["caughtBy"]): Swap {
  return {
    what,
    caughtBy,
    seedsMax: 300,
    swarm: startsAlone,
    startRun: originalStart(variant),
    table: originalCommands(variant),
  };
}

export const swappedOriginals: Readonly<Record<string, Swap>> = {
  original_lock_admission: admission(
    "starts by the original mechanism: an unfenced lock, then reserve, count and create",
    asWritten,
    ["INV-1", "INV-6", "INV-7", "INV-8", "INV-9", "INV-10", "INV-12", "INV-19"],
  ),
  original_lock_admission_scoped_keys: admission(
    "the original mechanism with keys that belong to a tenant",
    { ...asWritten, keysOf: "tenant" },
    ["INV-1", "INV-6", "INV-7", "INV-8", "INV-10", "INV-12", "INV-19"],
  ),
  original_lock_admission_jittered: admission(
    "the original mechanism with jitter between two tries of the lock",
    { ...asWritten, wait: "jitter", keysOf: "tenant" },
    ["INV-1", "INV-6", "INV-7", "INV-8", "INV-10", "INV-12", "INV-19"],
  ),
  original_lock_admission_without_cleanup: admission(
    "the original mechanism before it deleted the reservations of failed starts",
    { ...asWritten, cleanup: false, keysOf: "tenant" },
    ["INV-1", "INV-6", "INV-7", "INV-8", "INV-12", "INV-19"],
  ),
  original_lock_admission_key_ttl: admission(
    "the original mechanism with reservations that end by themselves",
    { ...asWritten, keyTtlMs: 1_500, keysOf: "tenant" },
    ["INV-1", "INV-6", "INV-7", "INV-8", "INV-10", "INV-12", "INV-19"],
  ),
  original_admission_without_lock: admission(
    "the original mechanism before it had a lock",
    { ...asWritten, wait: "none", keysOf: "tenant" },
    ["INV-1", "INV-6", "INV-7", "INV-8", "INV-10", "INV-12", "INV-19"],
  ),
  original_plain_delete: {
    ...admission(
      "the original mechanism before a release compared the token",
      { ...asWritten, keysOf: "tenant" },
      ["INV-1", "INV-6", "INV-7", "INV-8", "INV-10", "INV-12", "INV-13", "INV-19"],
    ),
    table: withPlainRelease(originalCommands({ ...asWritten, keysOf: "tenant" })),
  },
  original_retry_results: {
    what: "results by the original mechanism: look whether the step has ended, apply, overwrite the run",
    caughtBy: ["INV-4", "INV-12", "INV-17", "INV-18", "INV-22", "INV-23", "INV-24"],
    seedsMax: 300,
    swarm: (swarm) => asBaseline(swarm),
    table: originalResultCommands,
    wrapStore: lookingFirst,
  },
  original_warn_only_renewal: {
    what: "a failed renewal is only warned of, and what is written under the lock is not fenced",
    caughtBy: ["INV-12", "INV-13", "INV-14"],
    seedsMax: 300,
    table: noGuard,
    wrapStore: warnOnly,
  },
  original_three_strikes_renewal: {
    what: "a lock that is lost counts as one of three renewals that may fail",
    caughtBy: ["INV-12", "INV-13", "INV-14"],
    seedsMax: 300,
    table: noGuard,
    wrapStore: threeStrikes,
  },
  original_slot_release: {
    what: "the end of a run and the end of its slot are two calls, and the second may be lost",
    caughtBy: ["INV-2", "INV-3"],
    swarm: unproved,
    table: slotFreedApart,
    wrapStore: freeingApart,
  },
};

/** Starts and ends alone, and keys for ever, as it was. */
export function startsAlone(swarm: Swarm): Swarm {
  const { workflows: _workflows, losses: _losses, ...rest } = asBaseline(swarm);
  const { keyRetentionMs: _retention, ...settings } = swarm.storeSettings;
  return {
    ...rest,
    clientsPerGateway: Math.max(4, swarm.clientsPerGateway),
    endersPerGateway: Math.max(1, swarm.endersPerGateway),
    lockUsersPerGateway: 0,
    storeSettings: { ...settings, keysPerTenantMax: 100_000, runRetentionMs: 86_400_000 },
  };
}

/** Nobody ever looks whether slots and runs belong together. */
function unproved(swarm: Swarm): Swarm {
  return { ...swarm, storeSettings: { ...swarm.storeSettings, proveEveryMs: 86_400_000 } };
}
