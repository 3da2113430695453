// Faults of the servers themselves: restarts, failovers that lose the end of what was written, forgotten scripts and streams.
import { setTimeout as sleep } from "node:timers/promises";
import { JetStreamApiError, type JetStreamManager, jetstreamManager } from "@nats-io/jetstream";
import { connect } from "@nats-io/transport-node";
import type { RedisServer } from "../src/drills/servers/start-servers.ts";
import type { Fault, Strike } from "./fault.ts";
import type { System } from "./system.ts";

type Harm = (at: Strike, primary: RedisServer) => Promise<void>;

const redisHarms: Readonly<Record<string, Harm>> = {
  failover: failOver,
  "failover of a living primary": promoteBesideLiving,
  "restart redis": restart,
  "restart replica": async ({ system }) => restart(undefined, await system.redis.replica()),
  "stall redis": stall,
  "script flush": async (_, primary) => void (await primary.command("SCRIPT", "FLUSH", "SYNC")),
  "client kill": async (_, primary) => void (await primary.command("CLIENT", "KILL", "TYPE", "normal")),
};

export const serverFaults: readonly Fault[] = [
  ...Object.entries(redisHarms).map(
    ([name, harm]): Fault => ({
      name,
      targets: () => ["redis"],
      needs: () => "redis",
      async strike(at) {
        try {
          await harm(at, await at.system.redis.namedMaster());
        } finally {
          await mendRedis(at.system);
        }
        return "hit";
      },
    }),
  ),
  {
    name: "delete stream",
    targets: () => ["interlock_hints", "interlock_notices", "interlock_checks", "interlock_results"],
    needs: () => "nats",
    strike: (at) => harmNats(at, ({ streams }) => streams.delete(at.target)),
  },
  {
    name: "purge stream",
    targets: () => ["interlock_results", "interlock_hints"],
    needs: () => "nats",
    strike: (at) => harmNats(at, async ({ streams }) => (await streams.purge(at.target)).success),
  },
  {
    name: "forget consumer",
    targets: () => ["interlock_results"],
    needs: () => "nats",
    strike: (at) => harmNats(at, ({ consumers }) => consumers.delete(at.target, "engine")),
  },
  { name: "restart nats", targets: () => ["nats"], needs: () => "nats", strike: restartNats },
];

/** The primary goes on alone for a moment, dies, and its replica takes its place without what it has not got. */
async function failOver({ system, random }: Strike, primary: RedisServer): Promise<void> {
  await system.redis.cutReplication();
  await sleep(random.integer(300, 1_500));
  await primary.kill();
  await system.redis.untilReplaced(primary);
  await sleep(random.integer(0, 500));
  await primary.restart();
}

/** The same, but the old primary is alive and answers those that have not heard yet, until it is told to follow. */
async function promoteBesideLiving({ system, random }: Strike, primary: RedisServer): Promise<void> {
  const { redis } = system;
  await redis.cutReplication();
  await sleep(random.integer(300, 1_000));
  await redis.sentinels[0]?.command("SENTINEL", "FAILOVER", redis.masterName).catch(unlessUnderWay);
  await redis.untilReplaced(primary);
  await sleep(random.integer(0, 1_000));
}

/** On a busy machine the Sentinel may have taken the primary for dead and begun by itself. */
function unlessUnderWay(error: unknown): void {
  if (!(error instanceof Error && error.message.startsWith("INPROG"))) throw error;
}

/** Back before the Sentinel takes it for dead, with what is in its file: everything that it has answered. */
async function restart(_: unknown, server: RedisServer): Promise<void> {
  await server.kill();
  await server.restart();
  // A machine that is so busy that the Sentinel was quicker: it has acted by then.
  await sleep(300);
}

/** Shorter than it takes the Sentinel to act. */
async function stall({ random }: Strike, primary: RedisServer): Promise<void> {
  primary.pause();
  try {
    await sleep(random.integer(200, 700));
  } finally {
    primary.resume();
  }
}

const mendsMax = 3;

/** Whatever became of the two: the one that the Sentinel names is followed by the other. It would see to that too, 10 s later. */
export async function mendRedis(system: System): Promise<void> {
  for (let mends = 1; ; mends += 1) {
    try {
      await mendOnce(system);
      return;
    } catch (error) {
      if (mends === mendsMax) throw error;
    }
  }
}

async function mendOnce({ redis, redisServers }: System): Promise<void> {
  for (const server of redisServers) if (!(await answers(server))) await server.restart();
  const named = await redis.namedMaster();
  for (const server of redisServers) {
    await redis.allowReplication(server);
    if (server !== named) await server.command("REPLICAOF", "127.0.0.1", String(named.port));
  }
  await redis.untilReplicated();
}

function answers(server: RedisServer): Promise<boolean> {
  return server.command("PING").then(
    () => true,
    () => false,
  );
}

/** `missed` when what is to be harmed is not there: another fault has taken it away, and it is not yet made again. */
async function harmNats(
  { system }: Strike,
  harm: (manager: JetStreamManager) => Promise<boolean>,
): Promise<"hit" | "missed"> {
  const connection = await connect({ servers: system.nats.url, timeout: 2_000 });
  try {
    return (await harm(await jetstreamManager(connection))) ? "hit" : "missed";
  } catch (error) {
    if (error instanceof JetStreamApiError && error.status === 404) return "missed";
    throw error;
  } finally {
    await connection.close();
  }
}

async function restartNats({ system, random }: Strike): Promise<"hit"> {
  await system.nats.kill();
  await sleep(random.integer(0, 2_000));
  await system.nats.restart();
  return "hit";
}
