// What operators look after: approvals, dead letters, tenants, keys, jobs, workers, pools, policies, the audit trail and locks.
import type { Caller } from "../caller.ts";
import type { Body, Common, Query, Success } from "../contract.ts";

export type Page<Item> = { readonly items: readonly Item[]; readonly next_cursor: string | null };

/** All items from the first page on, or `pages()` for those who show one page at a time. */
export type Listing<Item> = AsyncIterable<Item> & {
  pages(): AsyncIterable<Page<Item>>;
  /** The first page. */
  page(): Promise<Page<Item>>;
  /** The first so many items. */
  take(count: number): Promise<Item[]>;
};

export function listing<Item>(read: (cursor: string | undefined) => Promise<Page<Item>>): Listing<Item> {
  async function* pages(): AsyncGenerator<Page<Item>, void, undefined> {
    let cursor: string | undefined;
    do {
      const page = await read(cursor);
      yield page;
      cursor = page.next_cursor ?? undefined;
    } while (cursor !== undefined);
  }
  async function* items(): AsyncGenerator<Item, void, undefined> {
    for await (const page of pages()) yield* page.items;
  }
  return {
    pages,
    page: () => read(undefined),
    async take(count) {
      const taken: Item[] = [];
      if (count <= 0) return taken;
      for await (const item of items()) {
        taken.push(item);
        if (taken.length >= count) break;
      }
      return taken;
    },
    [Symbol.asyncIterator]: items,
  };
}

type Listed<Name extends "listApprovals" | "listDeadLetters" | "listTenants"> =
  Success<Name> extends { readonly items: ReadonlyArray<infer Item> } ? Item : never;
type Filter<Name extends "listApprovals" | "listDeadLetters"> = Common & Omit<Query<Name>, "cursor">;

export type Approval = Listed<"listApprovals">;

export type Approvals = {
  list(options?: Filter<"listApprovals">): Listing<Approval>;
  /** What is to be approved, with the `hash` that the decision names. */
  context(jobId: string, options?: Common): Promise<Success<"approvalContext">>;
  approve(jobId: string, decision?: Body<"approve">, options?: Common): Promise<Approval>;
  reject(jobId: string, decision?: Body<"reject">, options?: Common): Promise<Approval>;
};

export function approvalsOf(caller: Caller): Approvals {
  return {
    list: (options) => listed(options, (given) => caller.call("listApprovals", given)),
    context: (job_id, options) => caller.call("approvalContext", { params: { job_id }, ...options }),
    approve: (job_id, body = {}, options) => caller.call("approve", { params: { job_id }, body, ...options }),
    reject: (job_id, body = {}, options) => caller.call("reject", { params: { job_id }, body, ...options }),
  };
}

export type DeadLetter = Listed<"listDeadLetters">;

export type DeadLetters = {
  list(options?: Filter<"listDeadLetters">): Listing<DeadLetter>;
  get(id: string, options?: Common): Promise<Success<"inspectDeadLetter">>;
  /** The same run and step go on with the next attempt. */
  retry(id: string, options?: Common): Promise<Success<"retryDeadLetter">>;
  remove(id: string, options?: Common): Promise<void>;
  /** Some hundred per call: again while `more`. */
  purge(filter?: Body<"purgeDeadLetters">, options?: Common): Promise<Success<"purgeDeadLetters">>;
};

export function deadLettersOf(caller: Caller): DeadLetters {
  return {
    list: (options) => listed(options, (given) => caller.call("listDeadLetters", given)),
    get: (id, options) => caller.call("inspectDeadLetter", { params: { id }, ...options }),
    retry: (id, options) => caller.call("retryDeadLetter", { params: { id }, ...options }),
    async remove(id, options) {
      await caller.call("removeDeadLetter", { params: { id }, ...options });
    },
    purge: (body = {}, options) => caller.call("purgeDeadLetters", { body, ...options }),
  };
}

export type Tenants = {
  list(options?: Common & { readonly limit?: number }): Listing<Listed<"listTenants">>;
  create(tenant: Body<"createTenant">, options?: Common): Promise<Success<"createTenant">>;
  get(id: string, options?: Common): Promise<Success<"getTenant">>;
  /** Null removes a setting; what is absent stays. */
  change(id: string, changes: Body<"changeTenant">, options?: Common): Promise<Success<"changeTenant">>;
  /** One that has no active run, with its keys. */
  remove(id: string, options?: Common): Promise<void>;
};

export function tenantsOf(caller: Caller): Tenants {
  return {
    list: (options) => listed(options, (given) => caller.call("listTenants", given)),
    create: (body, options) => caller.call("createTenant", { body, ...options }),
    get: (id, options) => caller.call("getTenant", { params: { id }, ...options }),
    change: (id, body, options) => caller.call("changeTenant", { params: { id }, body, ...options }),
    async remove(id, options) {
      await caller.call("removeTenant", { params: { id }, ...options });
    },
  };
}

export type Keys = {
  list(options?: Common & Query<"listKeys">): Promise<Success<"listKeys">["items"]>;
  /** The answer shows the key once. A lost answer is not repeated: it would make a second key. */
  create(key: Body<"createKey">, options?: Common): Promise<Success<"createKey">>;
  /** Whose it is, its role and its end; never the key itself. */
  get(id: string, options?: Common & Query<"getKey">): Promise<Success<"getKey">>;
  revoke(id: string, options?: Common & Query<"revokeKey">): Promise<void>;
};

export function keysOf(caller: Caller): Keys {
  return {
    async list(options) {
      const { query, ...rest } = apart(options);
      return (await caller.call("listKeys", { query, ...rest })).items;
    },
    create: (body, options) => caller.call("createKey", { body, ...options }),
    get(id, options) {
      const { query, ...rest } = apart(options);
      return caller.call("getKey", { params: { id }, query, ...rest });
    },
    async revoke(id, options) {
      const { query, ...rest } = apart(options);
      await caller.call("revokeKey", { params: { id }, query, ...rest });
    },
  };
}

export type Jobs = {
  get(id: string, options?: Common): Promise<Success<"getJob">>;
  /** Those of a topic that wait for a worker, oldest first. */
  ready(
    topic: string,
    options?: Common & { readonly limit?: number },
  ): Promise<Success<"listReadyJobs">["items"]>;
  workers(options?: Common): Promise<Success<"listWorkers">["items"]>;
};

export function jobsOf(caller: Caller): Jobs {
  return {
    get: (id, options) => caller.call("getJob", { params: { id }, ...options }),
    async ready(topic, options) {
      const { query, ...rest } = apart(options);
      return (await caller.call("listReadyJobs", { query: { ...query, topic }, ...rest })).items;
    },
    workers: async (options) => (await caller.call("listWorkers", options)).items,
  };
}

/** What is about the call itself, and what is asked. */
export function apart<Options extends Common>(options: Options | undefined) {
  const { signal, headers, ...query } = options ?? ({} as Options);
  return {
    query: query as Omit<Options, keyof Common>,
    signal,
    ...(headers === undefined ? {} : { headers }),
  };
}

type Given<Filtered> = { query: Filtered & { cursor?: string } } & Common;

function listed<Item, Filtered extends Common>(
  options: Filtered | undefined,
  read: (
    given: Given<Omit<Filtered, keyof Common>>,
  ) => Promise<{ items: Item[]; next_cursor: string | null }>,
): Listing<Item> {
  const { query, ...rest } = apart(options);
  return listing((cursor) =>
    read({ query: { ...query, ...(cursor === undefined ? {} : { cursor }) }, ...rest }),
  );
}

type Pool = Success<"getPool">;
type Topic = Success<"listTopics">["items"][number];

export type Pools = {
  list(options?: Common): Promise<Pool[]>;
  get(name: string, options?: Common): Promise<Pool>;
  /** A new name makes a new pool; what is absent is not limited. */
  set(name: string, limits: Body<"setPool">, options?: Common): Promise<Pool>;
  /** Null removes a limit; what is absent stays. */
  change(name: string, changes: Body<"changePool">, options?: Common): Promise<Pool>;
  remove(name: string, options?: Common): Promise<void>;
  /** No new jobs for its workers; what they run goes on. `drained` tells when nothing runs any more. */
  drain(name: string, options?: Common): Promise<Pool>;
  /** Jobs again. */
  undrain(name: string, options?: Common): Promise<Pool>;
  addTopic(name: string, topic: string, options?: Common): Promise<Pool>;
  removeTopic(name: string, topic: string, options?: Common): Promise<void>;
};

export function poolsOf(caller: Caller): Pools {
  return {
    list: async (options) => (await caller.call("listPools", options)).items,
    get: (id, options) => caller.call("getPool", { params: { id }, ...options }),
    set: (id, body, options) => caller.call("setPool", { params: { id }, body, ...options }),
    change: (id, body, options) => caller.call("changePool", { params: { id }, body, ...options }),
    async remove(id, options) {
      await caller.call("removePool", { params: { id }, ...options });
    },
    drain: (id, options) =>
      caller.call("drainPool", { params: { id }, body: { draining: true }, ...options }),
    undrain: (id, options) =>
      caller.call("drainPool", { params: { id }, body: { draining: false }, ...options }),
    addTopic: (id, topic, options) => caller.call("addPoolTopic", { params: { id, topic }, ...options }),
    async removeTopic(id, topic, options) {
      await caller.call("removePoolTopic", { params: { id, topic }, ...options });
    },
  };
}

export type Queues = {
  /** The gates at which runs wait. */
  list(options?: Common & { readonly limit?: number }): Listing<Success<"listQueues">["items"][number]>;
  /** Who holds the places of a gate, and who waits there. */
  show(gate: string, options?: Common & Query<"getGate">): Promise<Success<"getGate">>;
  /** Before all others, or behind those of a priority. */
  move(runId: string, to: "head" | number, options?: Common): Promise<void>;
};

export function queuesOf(caller: Caller): Queues {
  return {
    list: (options) => listed(options, (given) => caller.call("listQueues", given)),
    show(id, options) {
      const { query, ...rest } = apart(options);
      return caller.call("getGate", { params: { id }, query, ...rest });
    },
    async move(id, to, options) {
      await caller.call("moveQueued", { params: { id }, body: { to }, ...options });
    },
  };
}

export type Budgets = {
  /** What budgets have spent in their present period; with `periods: "all"` also of the last 35 days. */
  list(options?: Common & Query<"listBudgets">): Listing<Success<"listBudgets">["items"][number]>;
};

export function budgetsOf(caller: Caller): Budgets {
  return { list: (options) => listed(options, (given) => caller.call("listBudgets", given)) };
}

export type Topics = {
  list(options?: Common): Promise<Topic[]>;
  /** How many of its jobs may run at once. */
  limit(name: string, limit: Body<"setTopic">, options?: Common): Promise<Topic>;
  removeLimit(name: string, options?: Common): Promise<void>;
};

export function topicsOf(caller: Caller): Topics {
  return {
    list: async (options) => (await caller.call("listTopics", options)).items,
    limit: (id, body, options) => caller.call("setTopic", { params: { id }, body, ...options }),
    async removeLimit(id, options) {
      await caller.call("removeTopic", { params: { id }, ...options });
    },
  };
}

type Scope = { readonly tenant?: string };

export type PolicyGroup = {
  /** Without a tenant: the platform's own. */
  get(scope?: Scope, options?: Common): Promise<Success<"getPolicies">>;
  set(changes: Body<"setPolicies">, options?: Common): Promise<Success<"setPolicies">>;
  /** All runs follow again what is set for all. */
  rollBack(scope?: Scope, options?: Common): Promise<Success<"removeRollout">>;
};

export function policiesOf(caller: Caller): PolicyGroup {
  return {
    get: (query = {}, options) => caller.call("getPolicies", { query, ...options }),
    set: (body, options) => caller.call("setPolicies", { body, ...options }),
    rollBack: (query = {}, options) => caller.call("removeRollout", { query, ...options }),
  };
}

export type Canaries = {
  list(options?: Common): Promise<Success<"listCanaries">["items"]>;
  start(canary: Body<"startCanary">, options?: Common): Promise<Success<"startCanary">>;
  get(id: string, options?: Common): Promise<Success<"getCanary">>;
  rollBack(id: string, body?: Body<"rollBackCanary">, options?: Common): Promise<Success<"rollBackCanary">>;
  keep(id: string, body?: Body<"keepCanary">, options?: Common): Promise<Success<"keepCanary">>;
};

export function canariesOf(caller: Caller): Canaries {
  return {
    list: async (options) => (await caller.call("listCanaries", options)).items,
    start: (body, options) => caller.call("startCanary", { body, ...options }),
    get: (id, options) => caller.call("getCanary", { params: { id }, ...options }),
    rollBack: (id, body = {}, options) => caller.call("rollBackCanary", { params: { id }, body, ...options }),
    keep: (id, body = {}, options) => caller.call("keepCanary", { params: { id }, body, ...options }),
  };
}

export type AuditRecord = Success<"readAudit">["items"][number];
export type AuditVerdict = Success<"verifyAudit">;

export type Audit = {
  /** Oldest first. */
  list(options?: Common & Omit<Query<"readAudit">, "cursor">): Listing<AuditRecord>;
  /** `expect` is the `head` of an earlier verification that was noted elsewhere. */
  verify(options?: Common & Query<"verifyAudit">): Promise<AuditVerdict>;
};

export function auditOf(caller: Caller): Audit {
  return {
    list(options) {
      const { query, ...rest } = apart(options);
      const { after, ...filter } = query;
      // A cursor is a place already.
      return listing((cursor) =>
        caller.call("readAudit", {
          query: {
            ...filter,
            ...(cursor === undefined ? { ...(after === undefined ? {} : { after }) } : { cursor }),
          },
          ...rest,
        }),
      );
    },
    verify(options) {
      const { query, ...rest } = apart(options);
      return caller.call("verifyAudit", { query, ...rest });
    },
  };
}

type LockAnswer = Success<"listLocks">;
export type HeldLock = Exclude<LockAnswer, { items: unknown }>;
export type AnyLock = Success<"listAllLocks">["items"][number];

export type Locks = {
  /** Waits for up to `wait_ms`; a lock that is busy is refused with `lock_unavailable`, which names its holder. */
  acquire(lock: Body<"acquireLock">, options?: Common): Promise<Success<"acquireLock">>;
  renew(lock: Body<"renewLock">, options?: Common): Promise<Success<"renewLock">>;
  release(lock: Body<"releaseLock">, options?: Common): Promise<Success<"releaseLock">>;
  get(resource: string, options?: Common): Promise<HeldLock>;
  list(options?: Common & { readonly limit?: number | undefined }): Listing<HeldLock>;
  /** Of all kinds, for admins. */
  all(options?: Common & Omit<Query<"listAllLocks">, "cursor">): Listing<AnyLock>;
  /** Takes a lock from its holder: the last resort. */
  break(lock: Body<"breakLock">, options?: Common): Promise<Success<"breakLock">>;
};

export function locksOf(caller: Caller): Locks {
  return {
    acquire: (body, options) => caller.call("acquireLock", { body, ...options }),
    renew: (body, options) => caller.call("renewLock", { body, ...options }),
    release: (body, options) => caller.call("releaseLock", { body, ...options }),
    get: async (resource, options) =>
      (await caller.call("listLocks", { query: { resource }, ...options })) as HeldLock,
    list(options) {
      const { query, ...rest } = apart(options);
      return listing(async (cursor) => {
        const asked = { ...(query.limit === undefined ? {} : { limit: query.limit }), ...after(cursor) };
        return (await caller.call("listLocks", { query: asked, ...rest })) as Exclude<LockAnswer, HeldLock>;
      });
    },
    all(options) {
      const { query, ...rest } = apart(options);
      return listing((cursor) =>
        caller.call("listAllLocks", { query: { ...query, ...after(cursor) }, ...rest }),
      );
    },
    break: (body, options) => caller.call("breakLock", { body, ...options }),
  };
}

function after(cursor: string | undefined) {
  return cursor === undefined ? {} : { cursor };
}
