// The operations on reservations of idempotency keys as script calls.
import type { RunId, RunStatus, TerminalStatus } from "../../domain/run.ts";
import {
  duration,
  guardArgs,
  opaqueWord,
  parseFailure,
  type Reply,
  type ScriptCall,
  unexpected,
  word,
} from "./script-call.ts";

export const reserve: ScriptCall<"reserve"> = {
  keys: (keys, { guard, key }) => [
    keys.lock(guard.lock),
    keys.grant(guard.lock),
    keys.reservation(key.digest),
    keys.admissionLock,
    keys.runPrefix,
    keys.keyed,
    keys.due,
    keys.reservationPrefix,
  ],
  args: ({ tenant, guard, runId, key }, settings) => [
    ...guardArgs(guard),
    word("run id", runId),
    opaqueWord("fingerprint", key.fingerprint),
    // Dead as soon as the lock is: twice its ttl only bounds how long the dead record stays.
    duration("twice the ttl", 2 * guard.ttlMs),
    tenant,
    key.digest,
    String(settings.keysPerTenantMax),
  ],
  parse(reply) {
    switch (reply[0]) {
      case "reserved":
        return { kind: "reserved" };
      case "replayed":
        return parseReplayed(reply);
      default:
        return parseFailure("reserve", reply);
    }
  },
};

export function parseReplayed(reply: Reply) {
  return { kind: "replayed", runId: reply[2] as RunId, status: reply[3] as RunStatus } as const;
}

export const cancelReservation: ScriptCall<"cancelReservation"> = {
  keys: (keys, { digest }) => [keys.reservation(digest), keys.keyed],
  args: ({ runId, token, digest }) => [word("run id", runId), opaqueWord("token", token), digest],
  parse(reply) {
    switch (reply[0]) {
      case "cancelled":
      case "kept":
        return { kind: reply[0] };
      default:
        return unexpected("cancelReservation", reply);
    }
  },
};

export const inspectReservation: ScriptCall<"inspectReservation"> = {
  keys: (keys, { digest }) => [keys.reservation(digest), keys.admissionLock],
  args: () => [],
  parse(reply) {
    const runId = reply[2] as RunId;
    switch (reply[0]) {
      case "pending":
        return { kind: "pending", runId };
      case "bound":
        return reply[3] === ""
          ? { kind: "bound", runId }
          : { kind: "bound", runId, finalStatus: reply[3] as TerminalStatus };
      default:
        return parseFailure("inspectReservation", reply);
    }
  },
};
