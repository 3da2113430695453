// Looks at the masters once a second: whether they are connected, which partitions they hold, and whether one that is new suits us, since a failover may bring any.
import { allPartitions, type Partition } from "../../domain/tenant.ts";
import { InterlockError } from "../../errors.ts";
import type { Clock, Log, Shard } from "../../ports/ports.ts";
import type { Connection } from "./connection.ts";
import { problemsOf, type ServerNeeds, type ServerProblem } from "./opening.ts";
import { readInfo, type Topology } from "./topology.ts";

export type ServersState = {
  /** To every master. */
  readonly isConnected: boolean;
  /** What is wrong with the settings of a server that answers, without its name. */
  readonly trouble: string | undefined;
  /** As far as is known: which of them holds what may have changed since. */
  readonly shards: readonly Shard[];
};

const lookEveryMs = 1_000;

type Looking = {
  readonly topology: Topology;
  readonly needs: ServerNeeds;
  readonly clock: Clock;
  readonly log: Log;
  tell(state: ServersState): void;
};

/** What a server said last, and how often it had been connected by then. */
type Asked = { readonly timesReady: number; readonly problems: readonly ServerProblem[] };

/** Gives what ends it. Costs nothing while the connections stay the same: only a new one is asked. */
export function watchServers({ topology, needs, clock, log, tell }: Looking): () => void {
  const asked = new WeakMap<Connection, Asked>(
    topology.masters().map((master) => [master, { timesReady: master.timesReady, problems: [] }]),
  );
  let known: string | undefined;
  let cancel = () => {};
  let stopped = false;

  async function look(): Promise<void> {
    const masters = topology.masters();
    for (const master of masters) {
      const { timesReady } = master;
      const last = asked.get(master);
      const suits = last?.timesReady === timesReady && last.problems.length === 0;
      if (!master.isReady || suits) continue;
      const problems = await problemsNow(master, needs);
      // Without an answer the last one stands, and the next look asks again.
      if (problems !== undefined) asked.set(master, { timesReady, problems });
    }
    if (stopped) return;
    const troubles = masters.flatMap((master) => asked.get(master)?.problems ?? []);
    const trouble = troubles.length === 0 ? undefined : troubles.map(({ what }) => what).join("; ");
    if (trouble !== known && trouble !== undefined) {
      const remedy = troubles.flatMap((problem) => problem.remedy ?? []).join("; ");
      log.error("the store's server is not set up as it must be", { trouble, remedy });
    } else if (trouble !== known) log.warn("the store's server is set up as it must be again", {});
    known = trouble;
    const isConnected = masters.every((master) => master.isReady);
    tell({ isConnected, trouble, shards: shardsOf(topology) });
  }
  const again = () => {
    cancel = clock.timer(lookEveryMs, () => {
      void look().then(() => {
        if (!stopped) again();
      });
    });
  };
  tell({ isConnected: true, trouble: undefined, shards: shardsOf(topology) });
  again();
  return () => {
    stopped = true;
    cancel();
  };
}

function shardsOf(topology: Topology): readonly Shard[] {
  const byServer = new Map<Connection, Partition[]>();
  for (const partition of allPartitions) {
    const server = topology.connectionFor(partition);
    const held = byServer.get(server);
    if (held === undefined) byServer.set(server, [partition]);
    else held.push(partition);
  }
  return [...byServer.values()];
}

async function problemsNow(
  server: Connection,
  needs: ServerNeeds,
): Promise<readonly ServerProblem[] | undefined> {
  try {
    const info = await readInfo(server, ["server", "memory", "replication"], lookEveryMs);
    return problemsOf(server, info, needs);
  } catch (error) {
    if (error instanceof InterlockError) return undefined;
    throw error;
  }
}
