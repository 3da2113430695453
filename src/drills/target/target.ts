// What a drill is run against: an instance of its own, embedded or over servers of its own, or a deployment that runs already.

import type { ControlPlane } from "../../control-plane.ts";
import type { Bus } from "../../ports/bus.ts";
import type { Metrics } from "../../ports/ports.ts";
import type { Answer, Execute, OperationName, RequestOf } from "../../ports/store.ts";
import type { Client } from "../../sdk/client.ts";
import type { Body } from "../../sdk/contract.ts";
import type { NatsServer } from "../servers/nats-server.ts";
import type { RedisGroup } from "../servers/redis-failover.ts";
import type { RedisServer } from "../servers/redis-server.ts";
import type { ServeProcess } from "./serve-process.ts";

type TargetKind = "embedded" | "cluster" | "deployment";

export type Target = {
  readonly kind: TargetKind;
  /** For people, as in: `an embedded instance`. */
  readonly name: string;
  /** Where its gateways are. */
  readonly urls: readonly string[];
  /** With the platform's key, at the first gateway. */
  readonly platform: Client;
  /** A tenant for this drill alone, removed with all that is in it when the target is closed. */
  createTenant(settings?: TenantFields): Promise<DrillTenant>;
  /** What /metrics says now: the sum over the gateways of each series that has these labels. */
  readMetrics(): Promise<Reading>;
  /** Only where the drill has made the instance itself. */
  readonly inside?: Inside;
  readonly processes?: OwnProcesses;
  close(): Promise<void>;
};

export type TenantFields = Omit<Body<"createTenant">, "id">;

export type DrillTenant = {
  readonly id: string;
  readonly adminKey: string;
  readonly workerKey: string;
  /** With the admin's key, at the first gateway; without retries of its own. */
  readonly client: Client;
  /** The same at another gateway, or with another key. */
  clientAt(url: string, key?: "admin" | "worker"): Client;
};

export type Reading = {
  /** 0 when nothing was counted under these labels. Without the prefix `interlock_`; histograms as `<name>_count`, `_sum`. */
  sum(name: string, labels?: Readonly<Record<string, string>>): number;
};

/** An instance in this process: what it says to store, bus and metrics passes through here. */
export type Inside = {
  readonly plane: ControlPlane;
  /** The instance's own, for results that workers bring over it. */
  readonly bus: Bus;
  /** Told of each call as it is sent, and of its answer. */
  watchStore(watcher: StoreWatcher): () => void;
  watchMetrics(watcher: Partial<Metrics>): () => void;
  /** Goes between the instance and its store until the answer is called; the latest is asked first. */
  disturbStore(disturbance: StoreDisturbance): () => void;
  /** While it answers true, what is published is lost without a word. */
  loseBus(isLost: () => boolean): () => void;
};

export type StoreWatcher = {
  sent?<Name extends OperationName>(name: Name, request: RequestOf<Name>): void;
  answered?<Name extends OperationName>(name: Name, request: RequestOf<Name>, answer: Answer<Name>): void;
};

export type StoreDisturbance = (next: Execute) => Execute;

/** An instance in processes of their own. */
export type OwnProcesses = {
  readonly servers: OwnServers | undefined;
  readonly running: readonly ServeProcess[];
  /** One more over the same data; on embedded data only when no other is running. */
  start(): Promise<ServeProcess>;
};

export type OwnServers = {
  readonly nats: NatsServer;
  /** With `single`, or the first master with `sentinel`. */
  readonly redis: RedisServer;
  readonly group?: RedisGroup;
};
