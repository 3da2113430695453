// Jobs flow between processes while the streams of their bus are removed or purged, or NATS is away for 20 s.
import { type JetStreamManager, jetstreamManager } from "@nats-io/jetstream";
import { connect } from "@nats-io/transport-node";
import { afterAll, beforeAll, expect, test } from "vitest";
import { systemClock } from "../../src/adapters/system/system.ts";
import { type NatsServer, startNatsServer } from "../../src/drills/servers/start-servers.ts";
import { busStreams } from "../../src/ports/bus.ts";
import { type FlowEnd, startNatsFlow } from "../support/nats-flow.ts";

let server: NatsServer;

beforeAll(async () => {
  server = await startNatsServer();
});

afterAll(() => server.stop());

/** Lets jobs flow, does the damage, lets them flow on until every run has ended, and closes. */
async function flowThrough(
  title: string,
  options: { readonly prefix: string; readonly pollWaitMs: number },
  damage: (flowed: (jobs: number) => Promise<void>) => Promise<void>,
): Promise<FlowEnd> {
  const flow = await startNatsFlow({ url: server.url, ...options });
  try {
    await flow.flowed(60);
    await damage(flow.flowed);
    await flow.flowed(60);
    const end = await flow.settle(40_000);
    console.log(
      `[nats] ${title}: ${end.runs} runs, ${end.jobs} jobs, ${end.claimedTwice.length} claimed twice, longest delay ${end.longestDelayMs} ms`,
    );
    return end;
  } finally {
    await flow.close();
  }
}

/** No run is lost, and no job of a run was done twice. */
function expectWhole(end: FlowEnd): void {
  expect(end.claimedTwice).toEqual([]);
  expect([end.succeeded, end.jobs]).toEqual([end.runs, 3 * end.runs]);
}

async function outside(act: (manager: JetStreamManager) => Promise<unknown>): Promise<void> {
  const connection = await connect({ servers: `127.0.0.1:${server.port}` });
  await act(await jetstreamManager(connection));
  await connection.close();
}

test("the streams are removed in the middle, again and again: nothing is lost or done twice", async () => {
  const end = await flowThrough(
    "streams removed",
    { prefix: "removed", pollWaitMs: 20_000 },
    async (flowed) => {
      for (let round = 0; round < 5; round += 1) {
        await outside(async (manager) => {
          for (const stream of busStreams)
            await manager.streams.delete(`removed_${stream}`).catch(() => false);
        });
        await flowed(20);
      }
    },
  );
  expectWhole(end);
  // Consumers hear at once that theirs is gone, and look into the store when they are back.
  expect(end.longestDelayMs).toBeLessThan(6_000);
});

test("the streams are purged in the middle, again and again: nothing is lost or done twice", async () => {
  // Nobody is told of a purge: a hint that it caught is found by the worker's next poll, or by the sweep after 30 s.
  const end = await flowThrough("streams purged", { prefix: "purged", pollWaitMs: 2_000 }, (flowed) =>
    outside(async (manager) => {
      for (let round = 0; round < 40; round += 1) {
        for (const stream of busStreams) await manager.streams.purge(`purged_${stream}`);
        await flowed(1);
      }
    }),
  );
  expectWhole(end);
  expect(end.longestDelayMs).toBeLessThan(2_000 + 4_000);
});

test("NATS is away for 20 s: runs go on meanwhile, and nothing is lost or done twice", async () => {
  let meanwhile = 0;
  const end = await flowThrough(
    "NATS away for 20 s",
    { prefix: "away", pollWaitMs: 20_000 },
    async (flowed) => {
      await server.kill();
      const backMs = systemClock.monotonicMs() + 20_000;
      while (systemClock.monotonicMs() < backMs) {
        await flowed(50);
        meanwhile += 50;
      }
      await server.restart();
    },
  );
  expectWhole(end);
  expect(meanwhile).toBeGreaterThanOrEqual(200);
  // A process that is cut off looks into the store about once a second.
  expect(end.longestDelayMs).toBeLessThan(6_000);
});
