// An instance in this process whose calls to store and bus a drill can watch and disturb.

import { type Server, startServer } from "../../embedded/start-server.ts";
import type { Bus } from "../../ports/bus.ts";
import type { Log, Metrics } from "../../ports/ports.ts";
import { type Answer, type Execute, executeOn, type Store, storeFrom } from "../../ports/store.ts";
import type { Inside, StoreDisturbance, StoreWatcher } from "./target.ts";

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
      count: (name, labels) => tellAll(metricsWatchers, (watcher) => watcher.count?.(name, labels)),
      observe: (name, labels, value) =>
        tellAll(metricsWatchers, (watcher) => watcher.observe?.(name, labels, value)),
      set: (name, labels, value) => tellAll(metricsWatchers, (watcher) => watcher.set?.(name, labels, value)),
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

function tellAll<Watcher>(watchers: ReadonlySet<Watcher>, tell: (watcher: Watcher) => void): void {
  for (const watcher of watchers) tell(watcher);
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
    close: () => bus.close(),
  };
}
