// What a drill is run against; and an instance in this process whose calls to store and bus a drill can watch and disturb.
import type { ControlPlane } from "../../control-plane.ts";
import { type Server, startServer } from "../../embedded/start-server.ts";
import type { Bus } from "../../ports/bus.ts";
import type { Log, Metrics } from "../../ports/ports.ts";
import {
  type Answer,
  type Execute,
  executeOn,
  type OperationName,
  type RequestOf,
  type Store,
  storeFrom,
} from "../../ports/store.ts";
import type { Client } from "../../sdk/client.ts";
import type { Body } from "../../sdk/contract.ts";
import type { RedisGroup } from "../servers/redis-failover.ts";
import type { NatsServer, RedisServer } from "../servers/start-servers.ts";
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
  /** Called for each call as it is sent, and for its answer. */
  watchStore(watcher: StoreWatcher): () => void;
  watchMetrics(watcher: Partial<Metrics>): () => void;
  /** Goes between the instance and its store until the answer is called; the latest is asked first. */
  disturbStore(disturbance: StoreDisturbance): () => void;
  /** While it answers true, what is published is lost without a word. */
  loseBus(isLost: () => boolean): () => void;
};

type StoreWatcher = {
  sent?<Name extends OperationName>(name: Name, request: RequestOf<Name>): void;
  answered?<Name extends OperationName>(name: Name, request: RequestOf<Name>, answer: Answer<Name>): void;
};

type StoreDisturbance = (next: Execute) => Execute;

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

type InsideInstance = { readonly server: Server; readonly inside: Inside };

/** `env` is the whole environment of the instance: nothing of this process's own gets into it. */
export async function startInside(env: Readonly<Record<string, string>>): Promise<InsideInstance> {
  const storeWatchers = new Set<StoreWatcher>();
  const metricsWatchers = new Set<Partial<Metrics>>();
  const disturbances: StoreDisturbance[] = [];
  const busLosses = new Set<() => boolean>();
  let opened: Bus | undefined;
  const server = await startServer({
    env,
    keys: "keep",
    port: { whenTaken: "refuse" },
    log: errorsAlone,
    watchMetrics: {
      count: (name, labels) => notifyAll(metricsWatchers, (watcher) => watcher.count?.(name, labels)),
      observe: (name, labels, value) =>
        notifyAll(metricsWatchers, (watcher) => watcher.observe?.(name, labels, value)),
      set: (name, labels, value) =>
        notifyAll(metricsWatchers, (watcher) => watcher.set?.(name, labels, value)),
    },
    around: {
      store: (store) => around(store, storeWatchers, disturbances),
      bus(bus) {
        opened = losing(bus, busLosses);
        return opened;
      },
    },
  });
  if (opened === undefined) throw new Error("an instance opens its bus when it starts");
  const inside: Inside = {
    plane: server.plane,
    bus: opened,
    watchStore: (watcher) => added(storeWatchers, watcher),
    watchMetrics: (watcher) => added(metricsWatchers, watcher),
    disturbStore(disturbance) {
      disturbances.push(disturbance);
      return () => {
        const at = disturbances.indexOf(disturbance);
        if (at >= 0) disturbances.splice(at, 1);
      };
    },
    loseBus: (isLost) => added(busLosses, isLost),
  };
  return { server, inside };
}

/** What a drill provokes would be warned of, thousands of times in a burst: it is the drill that tells what was seen. */
const errorsAlone: Log = {
  info: () => {},
  warn: () => {},
  error: (message, fields) => void process.stderr.write(`${JSON.stringify({ message, ...fields })}\n`),
};

function notifyAll<Watcher>(watchers: ReadonlySet<Watcher>, notify: (watcher: Watcher) => void): void {
  for (const watcher of watchers) notify(watcher);
}

function added<Member>(members: Set<Member>, member: Member): () => void {
  members.add(member);
  return () => void members.delete(member);
}

function around(
  store: Store,
  watchers: ReadonlySet<StoreWatcher>,
  disturbances: readonly StoreDisturbance[],
): Store {
  const real = executeOn(store);
  const execute: Execute = async (name, request, options) => {
    for (const watcher of watchers) watcher.sent?.(name, request);
    const disturbed = disturbances.reduce<Execute>((next, disturb) => disturb(next), real);
    const answer: Answer<typeof name> = await disturbed(name, request, options);
    for (const watcher of watchers) watcher.answered?.(name, request, answer);
    return answer;
  };
  return storeFrom(execute, () => store.close());
}

/** A bus may forget: what it takes and does not deliver is the worst that it can do. */
function losing(bus: Bus, losses: ReadonlySet<() => boolean>): Bus {
  const isLost = () => [...losses].some((loses) => loses());
  return {
    publish: (stream, message) =>
      isLost() ? Promise.resolve({ kind: "published" }) : bus.publish(stream, message),
    consume: (terms, handlers) => bus.consume(terms, handlers),
    announce(channel, body) {
      if (!isLost()) bus.announce(channel, body);
    },
    listen: (channel, hear) => bus.listen(channel, hear),
    serve: (handlers) => bus.serve(handlers),
    close: () => bus.close(),
  };
}
