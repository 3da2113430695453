// Runs the conformance cases of the bus port on every bus: the one inside a process by virtual time and by the real clock.
import { describe, test } from "vitest";
import { createInProcessBus } from "../../src/adapters/in-process-bus.ts";
import { systemClock } from "../../src/adapters/system/system.ts";
import { busCases } from "../../src/testing/conformance/bus-cases.ts";
import { BusHarness } from "../../src/testing/conformance/bus-harness.ts";
import { createKernel } from "../../src/testing/kernel.ts";
import { silentLog } from "../support/silent-log.ts";

describe("in-process", () => {
  for (const { name, check } of busCases) {
    test(`by virtual time: ${name}`, async () => {
      const kernel = createKernel(1);
      const { clock } = kernel.process("bus");
      const bus = createInProcessBus({ clock, log: silentLog });
      await kernel.complete(check(new BusHarness(bus, clock)));
    });
  }

  /** The cases that wait seconds for a second try are left to virtual time. */
  const quick = busCases.filter(({ name }) => !name.includes("cannot be given up"));

  for (const { name, check } of quick) {
    test.concurrent(`by the real clock: ${name}`, async () => {
      const bus = createInProcessBus({ clock: systemClock, log: silentLog });
      await check(new BusHarness(bus, systemClock));
      await bus.close();
    });
  }
});
