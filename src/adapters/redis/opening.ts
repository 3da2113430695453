// What must hold before the store is used: suitable servers, and partitions written in our schema version.
import { type Partition, partitionCount, partitionLabel } from "../../domain/partition.ts";
import { InterlockError } from "../../errors.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Connection } from "./connection.ts";
import type { Keys } from "./keys.ts";
import type { Reply } from "./script-call.ts";
import { runScript } from "./script-runner.ts";
import { loadScript, type Script } from "./scripts.ts";
import type { StoreTimes } from "./store-times.ts";
import type { Topology } from "./topology.ts";

export type RedisMode = "standalone" | "cluster";

/** How long one step of the opening may take. */
export const openWithinMs = 5_000;

/** The version that our scripts read and write. */
const schemaVersion = 2;

/** The script that brings a partition from the version at its index to the next one. */
const migrations: readonly string[] = ["migrate-from-0", "migrate-from-1"];

const versionMin = 7;

export async function checkServers(masters: readonly Connection[], mode: RedisMode): Promise<void> {
  await Promise.all(masters.map((master) => checkServer(master, mode)));
}

async function checkServer(server: Connection, mode: RedisMode): Promise<void> {
  // A node of a Cluster that was only just heard of may still be connecting: a start waits longer for it than a call would.
  await server.untilTried(openWithinMs);
  const [about, memory] = await Promise.all([readInfo(server, "server"), readInfo(server, "memory")]);
  const problems = [
    Number.parseInt(about("redis_version"), 10) < versionMin &&
      `redis_version is ${about("redis_version")}, and must be at least ${versionMin}`,
    // Any other policy evicts locks and runs when memory is short.
    memory("maxmemory_policy") !== "noeviction" &&
      `maxmemory_policy is ${memory("maxmemory_policy")}, and must be noeviction`,
    about("redis_mode") !== mode && `redis_mode is ${about("redis_mode")}, but store.redisMode is ${mode}`,
  ].filter((problem) => problem !== false);
  if (problems.length > 0) {
    throw new InterlockError("store_unsuitable", `${server.address.name}: ${problems.join("; ")}`);
  }
}

async function readInfo(server: Connection, section: string): Promise<(field: string) => string> {
  const delivery = await server.send(["INFO", section], openWithinMs);
  if (delivery.kind !== "reply") {
    const trouble = delivery.kind === "error" ? delivery.message : delivery.cause;
    throw new InterlockError("store_unavailable", `${server.address.name}: ${trouble}`);
  }
  const text = String(delivery.reply);
  return (field) => new RegExp(`^${field}:(.*?)\\r?$`, "m").exec(text)?.[1] ?? "unknown";
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
  const partitions = Array.from({ length: partitionCount }, (_, index) => index as Partition);
  await Promise.all(partitions.map((partition) => openPartition(opening, script, partition)));
}

async function openPartition(opening: Opening, script: Script, partition: Partition): Promise<void> {
  for (;;) {
    const [kind, now, found] = await ask(opening, script, partition, [String(schemaVersion)]);
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
        throw new InterlockError("store_unsuitable", `the user of the address may not run ${String(found)}`);
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
  await ask(opening, loadScript(fileName), partition, []);
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
  const trouble = delivery.kind === "error" ? delivery.message : delivery.cause;
  throw new InterlockError("store_unavailable", `${server}: ${trouble}`);
}
