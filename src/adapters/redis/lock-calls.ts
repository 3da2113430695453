// The lock operations as script calls.
import type { Fence } from "../../domain/lock.ts";
import { duration, grantMemory, opaqueWord, type ScriptCall, unexpected, word } from "./script-call.ts";

export const acquireLock: ScriptCall<"acquireLock"> = {
  keys: (keys, { lock }) => [keys.lock(lock), keys.grant(lock), keys.fence],
  args: ({ token, instance, ttlMs }) => [
    opaqueWord("token", token),
    word("instance", instance),
    duration("ttlMs", ttlMs),
    grantMemory,
  ],
  parse(reply) {
    switch (reply[0]) {
      case "acquired":
        return { kind: "acquired", fence: Number(reply[2]) as Fence, expiresInMs: Number(reply[3]) };
      case "busy":
        return { kind: "busy", instance: String(reply[2]), freeInMs: Number(reply[3]) };
      case "already_released":
        return { kind: "already_released" };
      default:
        return unexpected("acquireLock", reply);
    }
  },
};

export const renewLock: ScriptCall<"renewLock"> = {
  keys: (keys, { lock }) => [keys.lock(lock), keys.grant(lock)],
  args: ({ token, ttlMs }) => [opaqueWord("token", token), duration("ttlMs", ttlMs), grantMemory],
  parse(reply) {
    switch (reply[0]) {
      case "renewed":
        return { kind: "renewed", fence: Number(reply[2]) as Fence };
      case "not_owned":
        return { kind: "not_owned", superseded: reply[2] === "superseded" };
      default:
        return unexpected("renewLock", reply);
    }
  },
};

export const releaseLock: ScriptCall<"releaseLock"> = {
  keys: (keys, { lock }) => [keys.lock(lock), keys.grant(lock)],
  args: ({ token }) => [opaqueWord("token", token), grantMemory],
  parse(reply) {
    switch (reply[0]) {
      case "released":
      case "not_owned":
        return { kind: reply[0] };
      default:
        return unexpected("releaseLock", reply);
    }
  },
};

export const inspectLock: ScriptCall<"inspectLock"> = {
  keys: (keys, { lock }) => [keys.lock(lock)],
  args: () => [],
  parse(reply) {
    switch (reply[0]) {
      case "held":
        return {
          kind: "held",
          instance: String(reply[2]),
          fence: Number(reply[3]) as Fence,
          expiresInMs: Number(reply[4]),
        };
      case "free":
        return { kind: "free" };
      default:
        return unexpected("inspectLock", reply);
    }
  },
};
