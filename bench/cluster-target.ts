// What the cluster benchmark measures: one or two gateways and as many engines, each a process, on one Redis and one NATS server.

import { freePort } from "../src/drills/servers/start-servers.ts";
import { type Cluster, startCluster } from "../test/support/cluster.ts";
import { oneStep, threeSteps } from "./runs-target.ts";
import { clientCommands } from "./targets.ts";

export type ClusterTarget = {
  readonly gateways: ReadonlyArray<{ readonly url: string; readonly port: number }>;
  readonly keys: { readonly client: string; readonly worker: string };
  /** Since the servers were started. */
  counts(): Promise<ServerCounts>;
  close(): Promise<void>;
};

export type ServerCounts = {
  /** Sent by clients of Redis; what scripts call is not counted. */
  readonly redisCommands: number;
  /** That the NATS server received and sent, acknowledgements and requests for messages too. */
  readonly natsMessages: number;
  /** Both ways. */
  readonly redisBytes: number;
  readonly natsBytes: number;
  /** What the keys of all Redis servers take at the moment. */
  readonly redisMemoryBytes: number;
};

export async function openClusterTarget(processes: number): Promise<ClusterTarget> {
  const monitorPort = await freePort();
  const cluster = await startCluster({
    gateways: processes,
    engines: processes,
    // As the peer's server.
    redisArgs: ["--appendonly", "no"],
    natsConfig: `http: "127.0.0.1:${monitorPort}"`,
  });
  try {
    for (const workflow of [threeSteps, oneStep]) await saveWorkflow(cluster, workflow);
  } catch (error) {
    await cluster.stop();
    throw error;
  }
  return {
    gateways: cluster.gateways.map(({ url }) => ({ url, port: Number(new URL(url).port) })),
    keys: { client: cluster.keys.admin, worker: cluster.keys.worker },
    counts: () => countServers(cluster, monitorPort),
    close: () => cluster.stop(),
  };
}

async function countServers({ redis }: Cluster, monitorPort: number): Promise<ServerCounts> {
  const texts = await Promise.all(redis.map((server) => server.command<string>("INFO", "everything")));
  const sumOf = (field: string) =>
    texts.reduce((sum, text) => sum + Number(new RegExp(`^${field}:(\\d+)`, "m").exec(text)?.[1]), 0);
  const response = await fetch(`http://127.0.0.1:${monitorPort}/varz`);
  const nats = (await response.json()) as Record<"in_msgs" | "out_msgs" | "in_bytes" | "out_bytes", number>;
  return {
    redisCommands: texts.reduce((sum, text) => sum + clientCommands(text), 0),
    natsMessages: nats.in_msgs + nats.out_msgs,
    redisBytes: sumOf("total_net_input_bytes") + sumOf("total_net_output_bytes"),
    natsBytes: nats.in_bytes + nats.out_bytes,
    redisMemoryBytes: sumOf("used_memory"),
  };
}

async function saveWorkflow({ gateways, keys }: Cluster, workflow: object): Promise<void> {
  const response = await fetch(`${gateways[0]?.url}/api/v1/workflows`, {
    method: "POST",
    headers: { "content-type": "application/json", "x-api-key": keys.admin },
    body: JSON.stringify(workflow),
  });
  if (response.status !== 201) throw new Error(`the workflow was not saved: ${await response.text()}`);
}
