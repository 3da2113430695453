// What must hold before the store is used: suitable servers, and partitions written in our schema version.
import { allPartitions, type Partition, partitionCount, partitionLabel } from "../../domain/tenant.ts";
import { InterlockError } from "../../errors.ts";
import type { Clock } from "../../ports/ports.ts";
import type { Connection } from "./connection.ts";
import { openingError } from "./connection-trouble.ts";
import type { Durability } from "./durability.ts";
import type { Keys } from "./keys.ts";
import { scriptCommands } from "./least-rights.ts";
import type { Reply } from "./script-call.ts";
import { loadScript, runScript, type Script } from "./scripts.ts";
import {
  describeDelivery,
  isTooOld,
  readInfo,
  type ServerInfo,
  type Topology,
  versionMin,
  wantReplicasCommand,
  wantsReplicas,
} from "./topology.ts";

export type RedisMode = "standalone" | "sentinel" | "cluster";

/** How long one step of the opening may take. */
export const openWithinMs = 5_000;

/** The version that our scripts read and write. */
const schemaVersion = 2;

/** The script that brings a partition from the version at its index to the next one. */
const migrations: readonly string[] = ["migrate-from-0", "migrate-from-1"];

export type ServerNeeds = { readonly mode: RedisMode; readonly durability: Durability };

export async function checkServers(masters: readonly Connection[], needs: ServerNeeds): Promise<void> {
  await Promise.all(masters.map((master) => checkServer(master, needs)));
}

async function checkServer(server: Connection, needs: ServerNeeds): Promise<void> {
  // A node of a Cluster that was only just heard of may still be connecting: a start waits longer for it than a call would.
  await server.untilTried(openWithinMs);
  const info = await readInfo(server, ["server", "memory", "replication"], openWithinMs);
  const problems = problemsOf(server, info, needs);
  if (problems.length === 0) return;
  const told = problems.map(({ what, remedy }) => (remedy === undefined ? what : `${what}: ${remedy}`));
  throw new InterlockError("store_unsuitable", `${server.address.name}: ${told.join("; ")}`);
}

export type ServerProblem = { readonly what: string; readonly remedy?: string };

export function problemsOf(
  server: Connection,
  info: ServerInfo,
  { mode, durability }: ServerNeeds,
): readonly ServerProblem[] {
  const reported = (field: string) => info(field) ?? "unknown";
  const modeWanted = mode === "cluster" ? "cluster" : "standalone";
  return [
    isTooOld(info) && {
      what: `redis_version is ${reported("redis_version")}, and must be at least ${versionMin}`,
    },
    // Any other policy evicts locks and runs when memory is short.
    reported("maxmemory_policy") !== "noeviction" && {
      what: `maxmemory_policy is ${reported("maxmemory_policy")}, and must be noeviction`,
    },
    reported("redis_mode") !== modeWanted && {
      what: `redis_mode is ${reported("redis_mode")}, but store.redisMode is ${mode}`,
    },
    // A master that nobody copies any more would go on answering, each time after a WAIT in vain.
    durability === "replicated" &&
      !wantsReplicas(info) && {
        what: "min-replicas-to-write is 0, and store.durability replicated needs 1",
        remedy: wantReplicasCommand(server),
      },
  ].filter((problem) => problem !== false);
}

type Opening = {
  readonly topology: Topology;
  readonly clock: Clock;
  readonly keys: Keys;
  readonly times: StoreTimes;
};

/** All partitions at once: their commands share a few packets. */
export async function openPartitions(opening: Opening): Promise<void> {
  const script = loadScript("open-partition");
  await Promise.all(allPartitions.map((partition) => openPartition(opening, script, partition)));
}

async function openPartition(opening: Opening, script: Script, partition: Partition): Promise<void> {
  for (;;) {
    const [kind, now, found] = await ask(opening, script, partition, [
      String(schemaVersion),
      ...scriptCommands,
    ]);
    switch (kind) {
      case "current":
        opening.times.learn(partition, Number(now));
        return;
      case "older":
        await migrate(opening, partition, Number(found));
        break;
      case "newer": {
        const versions = `schema version ${String(found)}, and this program knows ${schemaVersion}`;
        throw new InterlockError("store_schema_newer", `${partitionLabel(partition)} has ${versions}`);
      }
      case "denied":
        throw denied(found);
      default:
        throw new InterlockError("store_corrupt", `${opening.keys.schema(partition)} holds ${String(found)}`);
    }
  }
}

async function migrate(opening: Opening, partition: Partition, version: number): Promise<void> {
  const fileName = migrations[version];
  if (fileName === undefined) {
    throw new InterlockError("store_corrupt", `${opening.keys.schema(partition)} holds ${version}`);
  }
  const [kind, , command] = await ask(opening, loadScript(fileName), partition, []);
  if (kind === "denied") throw denied(command);
}

function denied(command: unknown): InterlockError {
  return new InterlockError("store_unsuitable", `the user of the address may not run ${String(command)}`);
}

async function ask(
  { topology, clock, keys }: Opening,
  script: Script,
  partition: Partition,
  args: readonly string[],
): Promise<Reply> {
  const operands = ["1", keys.schema(partition), ...args];
  const delivery = await runScript(topology, clock, { partition, script, operands, withinMs: openWithinMs });
  if (delivery.kind === "reply") return delivery.reply as Reply;
  const server = topology.connectionFor(partition).address.name;
  throw openingError(`${server}: ${describeDelivery(delivery)}`);
}

export class StoreTimes {
  readonly #clock: Clock;
  /** Store time minus our monotonic time, by partition. */
  readonly #aheadMs: number[] = new Array<number>(partitionCount).fill(0);

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  learn(partition: Partition, storeTimeMs: number): void {
    this.#aheadMs[partition] = storeTimeMs - this.#clock.monotonicMs();
  }

  /** An estimate: it is behind by the time that the last answer was on its way, and by what the clocks drifted since. */
  nowMs(partition: Partition): number {
    return Math.floor((this.#aheadMs[partition] ?? 0) + this.#clock.monotonicMs());
  }
}
