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
    async counts() {
      const stats = await Promise.all(
        cluster.redis.map((server) => server.command<string>("INFO", "commandstats")),
      );
      const response = await fetch(`http://127.0.0.1:${monitorPort}/varz`);
      const { in_msgs, out_msgs } = (await response.json()) as { in_msgs: number; out_msgs: number };
      const redisCommands = stats.reduce((sum, text) => sum + clientCommands(text), 0);
      return { redisCommands, natsMessages: in_msgs + out_msgs };
    },
    close: () => cluster.stop(),
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
