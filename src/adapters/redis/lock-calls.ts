// The operations on locks as script calls.
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
import type { HeldLock, LockGrant } from "../../ports/lock-operations.ts";
import type { StoreOf } from "../../ports/store.ts";
import type { TenantKeys } from "./keys.ts";
import {
  credentialWord,
  duration,
  type Fields,
  grantMemory,
  opaqueWord,
  optionalWord,
  type ScriptCalls,
  textOfWord,
  word,
} from "./script-call.ts";

/** The first name in the list, and what every name of a run's lock, the last ones, begins with. */
const [firstName, firstRunLock] = ["admission/", "run/"];

export const lockCalls: ScriptCalls<keyof StoreOf<"locks">> = {
  acquireLock: {
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
  },
  renewLock: {
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
    read: { not_owned: ([why]) => ({ superseded: why === "superseded" }) },
  },
  releaseLock: {
    keys: (keys, { lock }) => [...grantKeys(keys, lock), ...queueKeys(keys, lock)],
    args: ({ tenant, lock, token }) => [
      opaqueWord("token", token),
      grantMemory,
      stoppable(lock),
      tenant,
      listedName(lock),
    ],
    read: { released: parseGranted },
  },
  inspectLock: {
    keys: (keys, { lock }) =>
      lock.namespace === "run" ? [keys.lock(lock)] : [keys.lock(lock), keys.queue(lock).ends],
    args: () => [],
    read: { held: (fields, _request, nowMs) => parseHeld(fields as HeldFields, nowMs) },
  },
  listLocks: {
    keys: (keys) => [keys.start, keys.locks, keys.due],
    args: ({ tenant, after, limit }) => [
      tenant,
      String(limit),
      after < firstName ? "admission" : "",
      startAfter(after),
      String(locksLookedAtMax),
      String(dueLookedAtMax),
    ],
    read: {
      listed(fields, { after, limit }, nowMs) {
        const [next, rows, runRows] = fields as ListedFields;
        if (next !== "") return { locks: rows.map((row) => parseRow(row, nowMs)), next };
        // Sorted here: scripts compare texts by the rules of the server's language.
        const left = runRows
          .filter(([name]) => name > after)
          .sort(([one], [other]) => (one < other ? -1 : 1));
        const page = [...rows, ...left].slice(0, limit);
        const locks = page.map((row) => parseRow(row, nowMs));
        const last = page.at(-1)?.[0];
        return locks.length < limit || last === undefined ? { locks } : { locks, next: last };
      },
    },
  },
  breakLock: {
    keys: (keys, { lock }) => [...grantKeys(keys, lock), keys.events, keys.trail, ...queueKeys(keys, lock)],
    args: ({ tenant, lock, fence, actor, reason, credential }, settings) => [
      String(fence),
      grantMemory,
      stoppable(lock),
      tenant,
      listedName(lock),
      nameOf(lock),
      actor,
      breakDetail(reason),
      String(settings.eventsPerTenantMax),
      credentialWord(credential),
      String(settings.auditRecordsPerTenantMax),
    ],
    read: { broken: parseGranted },
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
function parseGranted([tokenWord, fence, expiresInMs]: Fields): { readonly granted?: LockGrant } {
  if (tokenWord === undefined) return {};
  const token = decodeURIComponent(String(tokenWord)) as LockToken;
  return { granted: { token, fence: Number(fence) as Fence, expiresInMs: Number(expiresInMs) } };
}

type HeldFields = readonly [
  instance: string,
  fence: string,
  owner: string,
  expiresInMs: number,
  waiting: number,
];
type LockRow = readonly [name: string, ...held: HeldFields];
type ListedFields = readonly [next: string, rows: readonly LockRow[], runRows: readonly LockRow[]];

function parseRow([name, ...held]: LockRow, nowMs: number) {
  const slash = name.indexOf("/");
  const lock = { namespace: name.slice(0, slash), name: name.slice(slash + 1) } as LockName;
  return { lock, ...parseHeld(held, nowMs) };
}

/** The fence began as the time of the grant: it says since when. After the clock was set back it is ahead for a while. */
function parseHeld([instance, fence, owner, expiresInMs, waiting]: HeldFields, nowMs: number): HeldLock {
  return {
    ...{ instance, fence: Number(fence) as Fence, expiresInMs, waiting },
    ...(owner === "" ? {} : { owner: textOfWord(owner) }),
    heldForMs: Math.max(0, nowMs - Math.floor(Number(fence) / 1000)),
  };
}
