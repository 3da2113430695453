// Runs the conformance cases of the bus port on NATS JetStream: one server for all, a prefix of its own for each case.
import { afterAll, beforeAll, describe, test } from "vitest";
import { openNatsBus } from "../../src/adapters/nats/nats-bus.ts";
import { systemClock, systemRandom } from "../../src/adapters/system/system.ts";
import { type NatsServer, startNatsServer } from "../../src/drills/servers/start-servers.ts";
import { busCases } from "../../src/testing/conformance/bus-cases.ts";
import { type BusCase, BusHarness } from "../../src/testing/conformance/bus-harness.ts";
import { betweenProcessesCases } from "../../src/testing/conformance/bus-sharing-cases.ts";
import { silentLog } from "../support/silent-log.ts";

let server: NatsServer;

beforeAll(async () => {
  server = await startNatsServer();
});

afterAll(() => server.stop());

let prefixes = 0;

async function checkOnNats({ check }: BusCase, signingKeys: readonly string[] = []): Promise<void> {
  prefixes += 1;
  const prefix = `case${prefixes}`;
  const open = (instance: string) =>
    openNatsBus({
      urls: [server.url],
      prefix,
      clock: systemClock,
      random: systemRandom,
      log: silentLog,
      instance,
      signingKeys,
    });
  const buses = [await open("here"), await open("there")] as const;
  try {
    await check(new BusHarness(buses[0], systemClock, buses[1]));
  } finally {
    await Promise.all(buses.map((bus) => bus.close()));
  }
}

describe("nats", () => {
  for (const one of [...busCases, ...betweenProcessesCases])
    test.concurrent(one.name, () => checkOnNats(one));
});

describe("nats with signed messages", () => {
  const some = [...busCases, ...betweenProcessesCases].filter(({ name }) =>
    /any characters|announcement|under one id|after its delay/.test(name),
  );
  for (const one of some) test.concurrent(one.name, () => checkOnNats(one, ["a key that nobody else has"]));
});
