// What may be asked about pools and topics: their limits, what runs and waits, and who works for them.
import type { PoolLimits } from "../../domain/job.ts";
import type { TenantId } from "../../domain/tenant.ts";
import type { Caller, Trouble, WriteTrouble } from "../control-api.ts";

export type PoolInfo = {
  readonly name: string;
  /** Absent for a pool that is known by its workers alone. */
  readonly limits?: PoolLimits;
  /** Jobs that its workers have, as far as they are counted. */
  readonly running: number;
  /** It drains, and nothing runs any more. */
  readonly isDrained: boolean;
  /** Of the workers seen lately. */
  readonly workers: readonly string[];
};

export type TopicInfo = {
  readonly name: string;
  readonly maxRunning?: number;
  readonly running: number;
  /** Ready for a worker. */
  readonly waiting: number;
  readonly workers: readonly string[];
};

/** What is absent stays; undefined removes it. */
export type PoolChanges = {
  readonly maxRunning?: number | undefined;
  readonly topics?: readonly string[] | undefined;
  readonly draining?: true | undefined;
};

type PoolAnswer =
  | { readonly kind: "pool"; readonly pool: PoolInfo }
  | { readonly kind: "not_found" }
  | Trouble;

export type ChangePoolAnswer =
  | PoolAnswer
  /** So many pools, topics or names that every claim would take too long. */
  | { readonly kind: "too_many"; readonly detail: string }
  | { readonly kind: "version_conflict" }
  | WriteTrouble;

export type RemovedAnswer =
  | { readonly kind: "removed" }
  | { readonly kind: "not_found" }
  | { readonly kind: "version_conflict" }
  | WriteTrouble;

export type PoolApi = {
  listPools(
    tenant: TenantId,
  ): Promise<{ readonly kind: "listed"; readonly pools: readonly PoolInfo[] } | Trouble>;
  getPool(tenant: TenantId, name: string): Promise<PoolAnswer>;
  /** Sets a pool's limits, also of one that nobody has seen yet; `draining` stays as it is. */
  setPool(
    caller: Caller,
    name: string,
    limits: Pick<PoolLimits, "maxRunning" | "topics">,
  ): Promise<ChangePoolAnswer>;
  /** Changes a pool that is known: it has limits, workers, or is the default. */
  changePool(caller: Caller, name: string, changes: PoolChanges): Promise<ChangePoolAnswer>;
  /** Removes its limits; workers of it may go on. */
  removePool(caller: Caller, name: string): Promise<RemovedAnswer>;
  /** From the first topic on the pool gets no others. */
  addPoolTopic(caller: Caller, name: string, topic: string): Promise<ChangePoolAnswer>;
  /** Without its last one the pool gets no jobs; `changePool` lifts the restriction. */
  removePoolTopic(caller: Caller, name: string, topic: string): Promise<RemovedAnswer>;
  listTopics(
    tenant: TenantId,
  ): Promise<{ readonly kind: "listed"; readonly topics: readonly TopicInfo[] } | Trouble>;
  setTopic(
    caller: Caller,
    name: string,
    maxRunning: number,
  ): Promise<
    | { readonly kind: "topic"; readonly topic: TopicInfo }
    | { readonly kind: "too_many"; readonly detail: string }
    | { readonly kind: "version_conflict" }
    | WriteTrouble
  >;
  removeTopic(caller: Caller, name: string): Promise<RemovedAnswer>;
};
