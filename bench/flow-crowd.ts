// A crowd of starts at a limit, over HTTP on an embedded server: with the queue, and with clients that ask again after a 429.
import { join } from "node:path";
import { createSystemLog } from "../src/adapters/system/system-log.ts";
import { type ControlPlane, createControlPlane } from "../src/control-plane.ts";
import type { TenantId } from "../src/domain/tenant.ts";
import { createGateway } from "../src/gateway/server.ts";
import { startChildProgram } from "../test/support/child-program.ts";
import {
  type CrowdNumbers,
  type CrowdWay,
  crowdNumbers,
  crowdWays,
  type FlowScale,
  limit,
} from "./flow-plan.ts";
import { benchFolder } from "./program.ts";
import type { Measurement } from "./slices.ts";

/** What the process of the clients is told, and says. */
export type CrowdOrder = {
  readonly port: number;
  readonly key: string;
  readonly way: CrowdWay;
  readonly starts: number;
  /** Idempotency keys begin with it. */
  readonly name: string;
};
export type CrowdSaid =
  | { readonly kind: "sent"; readonly requests: number; readonly beganMs: number }
  | { readonly kind: "broken"; readonly cause: string };

export type WorkerOrder = {
  readonly port: number;
  readonly key: string;
  readonly topic: string;
  readonly workers: number;
};
export type WorkerSaid =
  | { readonly kind: "ready" }
  | { readonly kind: "ended"; readonly ends: readonly number[]; readonly endedMs: number };

export type FlowCrowd = {
  run(way: CrowdWay, starts: number): Promise<CrowdNumbers>;
  close(): Promise<void>;
};

const tenant = "crowd" as TenantId;
const topic = "crowd.work";
/** Twice the limit: one is always waiting when a run begins. */
const workers = 2 * limit;
const withinMs = 120_000;

const workflows = (["queue", "reject"] as const).map((at_limit) => ({
  id: `crowd-${at_limit}s`,
  concurrency: [{ max: limit, at_limit }],
  fairness: { key: "${input.customer}" },
  steps: { work: { topic, input: { customer: "${input.customer}" } } },
}));

/** The server is in this process, which does nothing else meanwhile; clients and workers are processes of their own. */
export async function openFlowCrowd(): Promise<FlowCrowd> {
  const log = createSystemLog("error");
  const overrides = { "store.kind": "sqlite", "store.dataDirectory": benchFolder("flow") } as const;
  const plane = await createControlPlane({ overrides, ports: { log } });
  const gateway = createGateway({ ...plane, metricsText: () => "" });
  const { url } = await gateway.listen({ host: "127.0.0.1", port: 0 });
  const port = Number(new URL(url).port);
  const keys = await prepare(plane);
  const clients = startChildProgram(join(import.meta.dirname, "flow-crowd-program.ts"), {});
  const order: WorkerOrder = { port, key: keys.worker, topic, workers };
  const crew = startChildProgram(join(import.meta.dirname, "flow-worker-program.ts"), order);
  await crew.next<WorkerSaid>();
  let crowds = 0;
  return {
    async run(way, starts) {
      crowds += 1;
      crew.say(String(starts));
      const name = `crowd-${crowds}`;
      clients.say(JSON.stringify({ port, key: keys.operator, way, starts, name } satisfies CrowdOrder));
      const sent = await clients.next<CrowdSaid>(withinMs);
      if (sent.kind === "broken") throw new Error(`the clients broke off: ${sent.cause}`);
      const ended = await crew.next<WorkerSaid>(withinMs);
      if (ended.kind !== "ended") throw new Error(`the workers said ${ended.kind}`);
      return crowdNumbers({ ...sent, ...ended });
    },
    async close() {
      await Promise.all([clients.stop(), crew.stop()]);
      await gateway.close();
      await plane.close();
    },
  };
}

async function prepare({ api }: ControlPlane) {
  await api.createTenant({ actor: "bench", tenant, settings: {} });
  for (const definition of workflows) {
    const saved = await api.saveWorkflow({ caller: { tenant, actor: "bench" }, definition });
    if (saved.kind !== "saved") throw new Error(`the workflow was not saved: ${JSON.stringify(saved)}`);
  }
  const make = async (role: "operator" | "worker") => {
    const made = await api.createKey({ by: "bench", tenant, role, name: role });
    if (made.kind !== "created") throw new Error(`no key: ${made.kind}`);
    return made.text;
  };
  return { operator: await make("operator"), worker: await make("worker") };
}

export function crowdMeasurements({
  slices,
  starts,
}: FlowScale): readonly Measurement<{ readonly crowd: FlowCrowd }>[] {
  return crowdWays.map((way) => ({
    name: `flow.${way}`,
    slices,
    fields: {
      total_ms: { unit: "ms", over: "median" },
      use: { unit: "fraction", over: "median" },
      requests_per_run: { unit: "requests", over: "mean" },
      jain: { unit: "index", over: "median" },
    },
    measure: ({ crowd }) => crowd.run(way, starts),
  }));
}
