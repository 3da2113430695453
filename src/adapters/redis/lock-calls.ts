// The lock operations as script calls.
import {
  breakDetail,
  dueLookedAtMax,
  type Fence,
  type LockName,
  type LockToken,
  locksLookedAtMax,
  ticketLifeMs,
  ticketsMax,
} from "../../domain/lock.ts";
import type { HeldLock } from "../../ports/lock-operations.ts";
import type { OutcomeOf } from "../../ports/store.ts";
import type { TenantKeys } from "./keys.ts";
import {
  credentialWord,
  duration,
  grantMemory,
  opaqueWord,
  optionalWord,
  type Reply,
  type ScriptCall,
  textOfWord,
  unexpected,
  word,
} from "./script-call.ts";

export const acquireLock: ScriptCall<"acquireLock"> = {
  keys: (keys, { lock }) => [...grantKeys(keys, lock), ...queueKeys(keys, lock)],
  args: ({ tenant, lock, token, instance, ttlMs, ticketMs, owner, credential }, { quotas }) => [
    opaqueWord("token", token),
    word("instance", instance),
    duration("ttlMs", ttlMs),
    grantMemory,
    ticketMs === undefined ? "" : duration("ticketMs", ticketLifeMs(ticketMs)),
    optionalWord(owner),
    credentialWord(credential),
    stoppable(lock),
    tenant,
    listedName(lock),
    String(ticketsMax),
    String(quotas.locks),
    String(quotas.lock_tickets),
  ],
  parse(reply) {
    switch (reply[0]) {
      case "acquired":
        return { kind: "acquired", fence: Number(reply[2]) as Fence, expiresInMs: Number(reply[3]) };
      case "busy":
        return {
          ...{ kind: "busy", instance: String(reply[2]), freeInMs: Number(reply[3]) },
          ...(reply[4] === "" ? {} : { ahead: Number(reply[4]) }),
        };
      case "lock_quota_reached":
      case "ticket_quota_reached":
        return { kind: reply[0], quota: Number(reply[2]) };
      case "already_released":
      case "unauthenticated":
      case "tenant_stopped":
        return { kind: reply[0] };
      default:
        return unexpected("acquireLock", reply);
    }
  },
};

export const renewLock: ScriptCall<"renewLock"> = {
  keys: (keys, { lock }) => [
    keys.lock(lock),
    keys.grant(lock),
    ...(lock.namespace === "public" ? [keys.held] : []),
  ],
  args: ({ lock, token, ttlMs }) => [
    opaqueWord("token", token),
    duration("ttlMs", ttlMs),
    grantMemory,
    listedName(lock),
  ],
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
  keys: (keys, { lock }) => [...grantKeys(keys, lock), ...queueKeys(keys, lock)],
  args: ({ tenant, lock, token }) => [
    opaqueWord("token", token),
    grantMemory,
    stoppable(lock),
    tenant,
    listedName(lock),
  ],
  parse(reply) {
    switch (reply[0]) {
      case "released":
        return { kind: "released", ...parseGranted(reply) };
      case "not_owned":
        return { kind: "not_owned" };
      default:
        return unexpected("releaseLock", reply);
    }
  },
};

export const inspectLock: ScriptCall<"inspectLock"> = {
  keys: (keys, { lock }) =>
    lock.namespace === "run" ? [keys.lock(lock)] : [keys.lock(lock), keys.queue(lock).ends],
  args: () => [],
  parse(reply) {
    switch (reply[0]) {
      case "held":
        return { kind: "held", ...parseHeld(reply.slice(2) as unknown as HeldFields, reply) };
      case "free":
        return { kind: "free" };
      default:
        return unexpected("inspectLock", reply);
    }
  },
};

/** The first name in the list, and what every name of a run's lock, the last ones, begins with. */
const [firstName, firstRunLock] = ["admission/", "run/"];

export const listLocks: ScriptCall<"listLocks"> = {
  keys: (keys) => [keys.start, keys.locks, keys.due],
  args: ({ tenant, after, limit }) => [
    tenant,
    String(limit),
    after < firstName ? "admission" : "",
    startAfter(after),
    String(locksLookedAtMax),
    String(dueLookedAtMax),
  ],
  parse(reply, { after, limit }) {
    if (reply[0] !== "listed") return unexpected("listLocks", reply);
    const [, , next, rows, runRows] = reply as unknown as ListedReply;
    if (next !== "") return { kind: "listed", locks: rows.map((row) => parseRow(row, reply)), next };
    // Sorted here: scripts compare texts by the rules of the server's language.
    const left = runRows.filter(([name]) => name > after).sort(([one], [other]) => (one < other ? -1 : 1));
    const page = [...rows, ...left].slice(0, limit);
    const locks = page.map((row) => parseRow(row, reply));
    const last = page.at(-1)?.[0];
    return locks.length < limit || last === undefined
      ? { kind: "listed", locks }
      : { kind: "listed", locks, next: last };
  },
};

export const breakLock: ScriptCall<"breakLock"> = {
  keys: (keys, { lock }) => [...grantKeys(keys, lock), keys.events, ...queueKeys(keys, lock)],
  args: ({ tenant, lock, fence, actor, reason, credential }, { eventsPerTenantMax }) => [
    String(fence),
    grantMemory,
    stoppable(lock),
    tenant,
    listedName(lock),
    nameOf(lock),
    actor,
    breakDetail(reason),
    String(eventsPerTenantMax),
    credentialWord(credential),
  ],
  parse(reply) {
    switch (reply[0]) {
      case "broken":
        return { kind: "broken", ...parseGranted(reply) };
      case "superseded":
        return { kind: "superseded", fence: Number(reply[2]) as Fence };
      case "free":
      case "unauthenticated":
        return { kind: reply[0] };
      default:
        return unexpected("breakLock", reply);
    }
  },
};

function grantKeys(keys: TenantKeys, lock: LockName): readonly string[] {
  return [keys.lock(lock), keys.grant(lock), keys.fence, keys.tenant];
}

/** Run locks have no queue, and are in no list: their grants cost what they did before there were queues. */
function queueKeys(keys: TenantKeys, lock: LockName): readonly string[] {
  if (lock.namespace === "run") return [];
  const { places, tickets, ends, endings } = keys.queue(lock);
  const counted = lock.namespace === "public" ? [keys.held, keys.waiting] : [];
  return [places, tickets, ends, endings, keys.locks, keys.due, ...counted];
}

/** The kill switch stops the locks that callers take for themselves; what the control plane locks goes on. */
function stoppable(lock: LockName): string {
  return lock.namespace === "public" ? "stoppable" : "";
}

/** Empty for locks that are found without a list: those of runs, and the one admission lock of a tenant. */
function listedName(lock: LockName): string {
  const { namespace, name } = lock;
  return namespace === "run" || (namespace === "admission" && name === "") ? "" : nameOf(lock);
}

function nameOf({ namespace, name }: LockName): string {
  return `${namespace}/${name}`;
}

function startAfter(after: string): string {
  if (after === "") return "-";
  return after < firstRunLock ? `(${after}` : "";
}

/** `opaqueWord` encodes what holds a space or a percent sign, so that decoding gives every token back. */
function parseGranted(reply: Reply) {
  if (reply[2] === undefined) return {};
  const token = decodeURIComponent(String(reply[2])) as LockToken;
  return { granted: { token, fence: Number(reply[3]) as Fence, expiresInMs: Number(reply[4]) } };
}

type HeldFields = readonly [
  instance: string,
  fence: string,
  owner: string,
  expiresInMs: number,
  waiting: number,
];
type LockRow = readonly [name: string, ...held: HeldFields];
type ListedReply = readonly [
  kind: string,
  now: string,
  next: string,
  rows: readonly LockRow[],
  runRows: readonly LockRow[],
];

function parseRow(
  [name, ...held]: LockRow,
  reply: Reply,
): Extract<OutcomeOf<"listLocks">, { kind: "listed" }>["locks"][number] {
  const slash = name.indexOf("/");
  const lock = { namespace: name.slice(0, slash), name: name.slice(slash + 1) } as LockName;
  return { lock, ...parseHeld(held, reply) };
}

/** The fence began as the time of the grant: it says since when. After the clock was set back it is ahead for a while. */
function parseHeld(fields: HeldFields, [, now]: Reply): HeldLock {
  const [instance, fence, owner, expiresInMs, waiting] = fields;
  return {
    ...{ instance, fence: Number(fence) as Fence, expiresInMs, waiting },
    ...(owner === "" ? {} : { owner: textOfWord(owner) }),
    heldForMs: Math.max(0, Number(now) - Math.floor(Number(fence) / 1000)),
  };
}
