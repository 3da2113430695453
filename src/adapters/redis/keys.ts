// Builds every Redis key: `<prefix>:{pNN}:<kind>:<parts>`, each part encoded so that no two names give the same key.
import type { LockName } from "../../domain/lock.ts";
import { type Partition, partitionLabel, partitionOf } from "../../domain/partition.ts";
import type { ReservationDigest } from "../../domain/reservation.ts";
import type { RunId } from "../../domain/run.ts";
import type { TenantId } from "../../domain/tenant.ts";
import { InterlockError } from "../../errors.ts";

/** The keys of one tenant. The partition in braces is the Cluster's hash tag: one script may touch all of them. */
export type TenantKeys = {
  readonly partition: Partition;
  readonly tenant: string;
  readonly active: string;
  readonly events: string;
  /** Shared by the tenants of a partition. */
  readonly fence: string;
  /** For scripts that learn the run, or the idempotency key, only from what they read. */
  readonly runPrefix: string;
  readonly reservationPrefix: string;
  readonly admissionLock: string;
  lock(lock: LockName): string;
  grant(lock: LockName): string;
  run(runId: RunId): string;
  reservation(digest: ReservationDigest): string;
};

export type Keys = {
  forTenant(tenant: TenantId): TenantKeys;
  schema(partition: Partition): string;
};

/** Tenants whose keys are remembered, so that a call does not build them again; then it starts afresh. */
const tenantsRememberedMax = 10_000;

export function createKeys(prefix: string): Keys {
  const remembered = new Map<TenantId, TenantKeys>();
  return {
    forTenant(tenant) {
      const known = remembered.get(tenant);
      if (known !== undefined) return known;
      const keys = buildTenantKeys(prefix, tenant);
      if (remembered.size >= tenantsRememberedMax) remembered.clear();
      remembered.set(tenant, keys);
      return keys;
    },
    schema: (partition) => `${partitionPrefix(prefix, partition)}schema`,
  };
}

function buildTenantKeys(prefix: string, tenant: TenantId): TenantKeys {
  const partition = partitionOf(tenant);
  const start = partitionPrefix(prefix, partition);
  const owner = encode(tenant);
  const runPrefix = `${start}run:${owner}:`;
  const reservationPrefix = `${start}wf:run:idempotency:${owner}:`;
  return {
    partition,
    tenant: `${start}tenant:${owner}`,
    active: `${start}active:${owner}`,
    events: `${start}events:${owner}`,
    fence: `${start}fence`,
    runPrefix,
    reservationPrefix,
    admissionLock: lockKey(start, owner, { namespace: "admission", name: "" }),
    lock: (lock) => lockKey(start, owner, lock),
    grant: (lock) => `${start}grant:${lock.namespace}:${owner}:${encode(lock.name)}`,
    run: (runId) => runPrefix + unencoded("run id", runId),
    reservation: (digest) => reservationPrefix + unencoded("reservation digest", digest),
  };
}

function partitionPrefix(prefix: string, partition: Partition): string {
  return `${prefix}:{${partitionLabel(partition)}}:`;
}

/** The admission lock has one per tenant: its key ends with the tenant, unless somebody gives it a name after all. */
function lockKey(start: string, owner: string, { namespace, name }: LockName): string {
  switch (namespace) {
    case "admission":
      return `${start}wf:run:admission:${owner}${name === "" ? "" : `:${encode(name)}`}`;
    case "run":
      return `${start}wf:run:lock:${owner}:${encode(name)}`;
    case "job":
      return `${start}scheduler:job:${owner}:${encode(name)}`;
    case "approval":
      return `${start}approval:${owner}:${encode(name)}`;
    case "public":
      return `${start}lock:${owner}:${encode(name)}`;
  }
}

const unreserved = /^[A-Za-z0-9_.~-]*$/;

/** Percent-encoding leaves no colon and no brace, so that the parts of a key can be told apart again. */
function encode(part: string): string {
  if (unreserved.test(part)) return part;
  try {
    return encodeURIComponent(part);
  } catch (error) {
    throw new InterlockError("invalid_request", "a name holds half of a surrogate pair", { cause: error });
  }
}

/** Scripts put these parts behind a prefix themselves and cannot encode: they must already be plain. */
function unencoded(what: string, part: string): string {
  if (part === "" || !unreserved.test(part)) {
    throw new InterlockError("invalid_request", `the ${what} may hold only letters, digits and _ . ~ -`);
  }
  return part;
}
