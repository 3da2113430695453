// Builds the Redis keys that calls name: `<prefix>:{pNN}:<kind>:<parts>`, each part encoded so that no two names collide.
import type { ApprovalId } from "../../domain/approval.ts";
import type { ReservationDigest } from "../../domain/fingerprint.ts";
import type { LockName } from "../../domain/lock.ts";
import type { RunId } from "../../domain/run.ts";
import {
  type Collection,
  type Partition,
  partitionLabel,
  partitionOf,
  type TenantId,
} from "../../domain/tenant.ts";
import { InterlockError } from "../../errors.ts";

/** What the tenants of a partition share. The partition in braces is the Cluster's hash tag: one script may touch all of them. */
export type PartitionKeys = {
  readonly partition: Partition;
  /** What every key of the partition begins with, for scripts that learn a name only from what they read. */
  readonly start: string;
  readonly fence: string;
  readonly due: string;
  readonly swept: string;
};

/** The keys of one tenant. */
export type TenantKeys = PartitionKeys & {
  readonly tenant: string;
  readonly active: string;
  readonly runs: string;
  readonly events: string;
  readonly trail: string;
  /** The tenant's idempotency records by when they end. */
  readonly keyed: string;
  readonly approvals: string;
  readonly runPrefix: string;
  readonly inboxPrefix: string;
  readonly reservationPrefix: string;
  readonly readyPrefix: string;
  /** The jobs that run and are counted, by topic and by pool. */
  readonly running: string;
  readonly approvalPrefix: string;
  readonly admissionLock: string;
  /** The names of the locks that are held. */
  readonly locks: string;
  /** The public locks that are held, and the tickets for them, by when they end: what quotas count. */
  readonly held: string;
  readonly waiting: string;
  /** The runs that wait at gates, by when they were started. */
  readonly queued: string;
  /** The budgets for which jobs are parked. */
  readonly parkedLines: string;
  lock(lock: LockName): string;
  grant(lock: LockName): string;
  queue(lock: LockName): LockQueueKeys;
  run(runId: RunId): string;
  inbox(runId: RunId): string;
  reservation(digest: ReservationDigest): string;
  ready(topic: string): string;
  approval(approvalId: ApprovalId): string;
  documents(collection: Collection): string;
  documentIds(collection: Collection): string;
};

/** The queue of a lock: tokens by place, what they asked for, until when they are kept, and what has ended lately. */
type LockQueueKeys = {
  readonly places: string;
  readonly tickets: string;
  readonly ends: string;
  readonly endings: string;
};

export type Keys = {
  forTenant(tenant: TenantId): TenantKeys;
  forPartition(partition: Partition): PartitionKeys;
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
    forPartition: (partition) => buildPartitionKeys(prefix, partition),
    schema: (partition) => `${partitionPrefix(prefix, partition)}schema`,
  };
}

function buildPartitionKeys(prefix: string, partition: Partition): PartitionKeys {
  const start = partitionPrefix(prefix, partition);
  return { partition, start, fence: `${start}fence`, due: `${start}due`, swept: `${start}swept` };
}

function buildTenantKeys(prefix: string, tenant: TenantId): TenantKeys {
  const shared = buildPartitionKeys(prefix, partitionOf(tenant));
  const { start } = shared;
  const owner = unencoded("tenant id", tenant);
  const runPrefix = `${start}run:${owner}:`;
  const inboxPrefix = `${start}inbox:${owner}:`;
  const reservationPrefix = `${start}wf:run:idempotency:${owner}:`;
  const readyPrefix = `${start}ready:${owner}:`;
  const approvalPrefix = `${start}approval-record:${owner}:`;
  return {
    ...shared,
    tenant: `${start}tenant:${owner}`,
    active: `${start}active:${owner}`,
    runs: `${start}runs:${owner}`,
    events: `${start}events:${owner}`,
    trail: `${start}trail:${owner}`,
    keyed: `${start}keyed:${owner}`,
    approvals: `${start}approvals:${owner}`,
    runPrefix,
    inboxPrefix,
    reservationPrefix,
    readyPrefix,
    running: `${start}running:${owner}`,
    approvalPrefix,
    admissionLock: lockKey(start, owner, { namespace: "admission", name: "" }),
    lock: (lock) => lockKey(start, owner, lock),
    locks: `${start}locks:${owner}`,
    held: `${start}held:${owner}`,
    waiting: `${start}waiting:${owner}`,
    queued: `${start}queued:${owner}`,
    parkedLines: `${start}parked-lines:${owner}`,
    grant: (lock) => `${start}grant:${lock.namespace}:${owner}:${encode(lock.name)}`,
    queue(lock) {
      const rest = `${lock.namespace}:${owner}:${encode(lock.name)}`;
      return {
        places: `${start}queue:${rest}`,
        tickets: `${start}tickets:${rest}`,
        ends: `${start}ticket-ends:${rest}`,
        endings: `${start}endings:${rest}`,
      };
    },
    run: (runId) => runPrefix + unencoded("run id", runId),
    inbox: (runId) => inboxPrefix + unencoded("run id", runId),
    reservation: (digest) => reservationPrefix + unencoded("reservation digest", digest),
    ready: (topic) => readyPrefix + encode(topic),
    approval: (approvalId) => approvalPrefix + plain("approval id", approvalId),
    documents: (collection) => `${start}documents:${owner}:${collection}`,
    documentIds: (collection) => `${start}document-ids:${owner}:${collection}`,
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

/** Percent-encoding leaves no colon and no brace, so that the parts of a key can be separated again. */
export function encode(part: string): string {
  if (unreserved.test(part)) return part;
  try {
    return encodeURIComponent(part);
  } catch (error) {
    throw new InterlockError("invalid_request", "a name holds half of a surrogate pair", { cause: error });
  }
}

/** Scripts put these parts behind a prefix themselves and cannot encode: they must already be plain. */
export function unencoded(what: string, part: string): string {
  if (part === "" || !unreserved.test(part)) {
    throw new InterlockError("invalid_request", `the ${what} may hold only letters, digits and _ . ~ -`);
  }
  return part;
}

const visible = /^[!#-[\]-z|~]+$/;

/** Scripts put ids of jobs, approvals and timers into keys, members and JSON as they are: no space, brace, quote or backslash. */
export function plain(what: string, text: string): string {
  if (visible.test(text)) return text;
  throw new InterlockError("invalid_request", `the ${what} may hold only visible ASCII without " \\ { }`);
}
