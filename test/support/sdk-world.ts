// A real gateway with short leases, clients of its tenant, and a fault proxy before it, for tests of the SDK.
import type { Config } from "../../src/config.ts";
import { type Client, createClient, type Worker, type WorkerOptions, worker } from "../../src/sdk/index.ts";
import { type FaultProxy, startFaultProxy } from "./fault-proxy.ts";
import { type GatewayWorld, openGatewayWorld } from "./gateway-world.ts";

export type SdkWorld = {
  readonly gateway: GatewayWorld;
  readonly proxy: FaultProxy;
  /** An admin's, straight to the gateway. */
  readonly admin: Client;
  /** A worker's key, through the proxy. */
  readonly through: Client;
  /** Stopped with the world, whatever it does. */
  work(options: WorkerOptions): Worker;
  /** Saves a workflow of one step and starts it; the run's id. */
  start(topic: string, step?: object, input?: object): Promise<string>;
  close(): Promise<void>;
};

export async function openSdkWorld(overrides: Partial<Config> = {}): Promise<SdkWorld> {
  const gateway = await openGatewayWorld(overrides);
  const proxy = await startFaultProxy(Number(new URL(gateway.url).port));
  const admin = createClient({ url: gateway.url, apiKey: gateway.acme.admin.text });
  const apiKey = gateway.acme.worker.text;
  const through = createClient({ url: `http://127.0.0.1:${proxy.port}`, apiKey });
  const workers: Worker[] = [];
  return {
    gateway,
    proxy,
    admin,
    through,
    work(options) {
      const started = worker({ client: through, onTrouble: () => {}, ...options });
      workers.push(started);
      return started;
    },
    async start(topic, step = {}, input = {}) {
      await admin.workflows.save({ id: topic, steps: { only: { topic, ...step } } });
      return (await admin.runs.start(topic, input)).run_id;
    },
    async close() {
      proxy.pass();
      await Promise.all(workers.map((each) => each.stop({ graceMs: 0 })));
      await proxy.close();
      await gateway.close();
    },
  };
}

/** Waits for the condition, with a deadline; its value when it holds. */
export async function eventually<Value>(
  what: string,
  look: () => Promise<Value | undefined | false> | Value | undefined | false,
  withinMs = 10_000,
): Promise<Value> {
  const endMs = performance.now() + withinMs;
  for (;;) {
    const found = await look();
    if (found !== undefined && found !== false) return found;
    if (performance.now() > endMs) throw new Error(`not in time: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
