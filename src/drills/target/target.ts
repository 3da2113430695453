// What a drill is run against; and an instance in this process whose calls to store and bus a drill can watch and disturb.
import type { ControlPlane } from "../../control-plane.ts";
import { type Server, startServer } from "../../embedded/start-server.ts";
import type { Bus } from "../../ports/bus.ts";
import type { DispatchCheck, Log, LogFields, Metrics } from "../../ports/ports.ts";
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

/** Instances in this process: what they say to store, bus, metrics and log passes through here. */
export type Inside = {
  /** Of the first one. */
  readonly plane: ControlPlane;
  /** Undefined on embedded data. */
  readonly servers: OwnServers | undefined;
  /** The first one's own, for results that workers bring over it. */
  readonly bus: Bus;
  /** Called for each call as it is sent, and for its answer. */
  watchStore(watcher: StoreWatcher): () => void;
  watchMetrics(watcher: Partial<Metrics>): () => void;
  watchLog(hear: (message: string, fields: LogFields) => void): () => void;
  /** Goes between the instances and their store until the answer is called; the latest is asked first. */
  disturbStore(disturbance: StoreDisturbance): () => void;
  /** While it answers true, what is published is lost without a word. */
  loseBus(isLost: () => boolean): () => void;
  /** Answers the dispatch check for the jobs of one tenant, where the drill has asked for a check. */
  answerChecks(tenant: string, check: DispatchCheck): () => void;
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

type InsideInstances = { readonly servers: readonly Server[]; readonly inside: Inside };

type InsideTerms = {
  /** The whole environment of each instance: nothing of this process's own gets into it. */
  readonly environments: ReadonlyArray<Readonly<Record<string, string>>>;
  readonly hasDispatchCheck: boolean;
  readonly ownServers: OwnServers | undefined;
};

export async function startInside(terms: InsideTerms): Promise<InsideInstances> {
  const { environments, hasDispatchCheck, ownServers } = terms;
  const storeWatchers = new Set<StoreWatcher>();
  const metricsWatchers = new Set<Partial<Metrics>>();
  const disturbances: StoreDisturbance[] = [];
  const busLosses = new Set<() => boolean>();
  const logWatchers = new Set<Parameters<Inside["watchLog"]>[0]>();
  const checks = new Map<string, DispatchCheck>();
  const buses: Bus[] = [];
  const dispatchCheck: DispatchCheck = async (job, options) =>
    (await checks.get(job.tenant)?.(job, options)) ?? { verdict: "allow" };
  const start = (env: Readonly<Record<string, string>>) =>
    startServer({
      env,
      keys: "keep",
      port: { whenTaken: "refuse" },
      log: logTo(logWatchers),
      ...(hasDispatchCheck ? { dispatchCheck } : {}),
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
          const lossy = losing(bus, busLosses);
          buses.push(lossy);
          return lossy;
        },
      },
    });
  const servers = await startAll(environments.map((env) => () => start(env)));
  const [{ plane }] = servers as [Server];
  const [bus] = buses as [Bus];
  const inside: Inside = {
    plane,
    bus,
    servers: ownServers,
    watchStore: (watcher) => added(storeWatchers, watcher),
    watchMetrics: (watcher) => added(metricsWatchers, watcher),
    watchLog: (hear) => added(logWatchers, hear),
    disturbStore(disturbance) {
      disturbances.push(disturbance);
      return () => {
        const at = disturbances.indexOf(disturbance);
        if (at >= 0) disturbances.splice(at, 1);
      };
    },
    loseBus: (isLost) => added(busLosses, isLost),
    answerChecks(tenant, check) {
      checks.set(tenant, check);
      return () => void checks.delete(tenant);
    },
  };
  return { servers, inside };
}

/** Together: gateways that meet an empty store make its keys once. */
async function startAll(starts: ReadonlyArray<() => Promise<Server>>): Promise<readonly Server[]> {
  const started = await Promise.allSettled(starts.map((start) => start()));
  const servers = started.flatMap((each) => (each.status === "fulfilled" ? [each.value] : []));
  const failed = started.find((each) => each.status === "rejected");
  if (failed === undefined) return servers;
  await Promise.all(servers.map((server) => server.close()));
  throw failed.reason;
}

/** What a drill provokes would be warned of, thousands of times in a burst: only errors are printed. */
function logTo(watchers: ReadonlySet<Parameters<Inside["watchLog"]>[0]>): Log {
  const tell = (message: string, fields: LogFields = {}) =>
    notifyAll(watchers, (hear) => hear(message, fields));
  return {
    info: tell,
    warn: tell,
    error(message, fields) {
      tell(message, fields);
      process.stderr.write(`${JSON.stringify({ message, ...fields })}\n`);
    },
  };
}

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
