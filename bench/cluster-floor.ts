// The floor of the cluster benchmark: what a message costs that is published, acknowledged, fetched and acknowledged, and nothing else.
import { openNatsBus } from "../src/adapters/nats/nats-bus.ts";
import { systemClock, systemRandom } from "../src/adapters/system/system.ts";
import { createSystemLog } from "../src/adapters/system/system-log.ts";
import { startNatsServer } from "../src/drills/servers/start-servers.ts";
import { closedLoop } from "./load.ts";
import type { Measurement } from "./slices.ts";

/** About what a hint of a job takes: tenant, topic, run and job. */
const body = JSON.stringify({
  tenant: "default",
  hint: {
    jobId: "run_07_0123456789abcdef0123456789abcdef:second@1",
    runId: "run_07_0123456789abcdef0123456789abcdef",
    topic: "bench.step",
    createdAtMs: 1_700_000_000_000,
  },
});

const inFlight = 300;

/** The product's own adapter: its way of publishing costs an eighth of the client library's. */
export function jetStreamFloor(scale: {
  readonly slices: number;
  readonly floorMs: number;
}): Measurement<unknown> {
  return {
    name: "floor.jetstream",
    slices: scale.slices,
    fields: { per_s: { unit: "per second", over: "median" } },
    async measure() {
      const server = await startNatsServer();
      const bus = await openNatsBus({
        urls: [server.url],
        prefix: "floor",
        instance: "floor",
        clock: systemClock,
        random: systemRandom,
        log: createSystemLog("error"),
      });
      const waiting = new Map<string, () => void>();
      const terms = {
        stream: "notices",
        name: "floor",
        ackWaitMs: 30_000,
        deliveriesMax: 10,
        pendingMax: 1_024,
      };
      const consumer = bus.consume(terms as Parameters<typeof bus.consume>[0], {
        async handle({ subject }) {
          waiting.get(subject)?.();
          return { kind: "done" };
        },
        giveUp: async () => {},
      });
      let made = 0;
      const once = async () => {
        made += 1;
        const subject = `floor/${made}`;
        const handled = new Promise<void>((resolve) => waiting.set(subject, resolve));
        const published = await bus.publish("notices", { subject, body });
        if (published.kind !== "published") throw new Error(`not published: ${published.cause}`);
        await handled;
        waiting.delete(subject);
        return "succeeded" as const;
      };
      try {
        await closedLoop({ inFlight, durationMs: scale.floorMs / 2 }, once);
        return { per_s: await closedLoop({ inFlight, durationMs: scale.floorMs }, once) };
      } finally {
        await consumer.stop();
        await bus.close();
        await server.stop();
      }
    },
  };
}
