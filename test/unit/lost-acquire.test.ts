// An acquire that arrives after its caller gave up: it must not lock everybody out for a whole ttl.
import { expect, test } from "vitest";
import { MemoryMetrics } from "../../src/adapters/memory-metrics.ts";
import { admissionLockTerms } from "../../src/control/locks/lease-terms.ts";
import { withLease } from "../../src/control/locks/with-lease.ts";
import { admissionLock } from "../../src/domain/lock.ts";
import type { TenantId } from "../../src/domain/tenant.ts";
import { loadConfig } from "../../src/load-config.ts";
import { silentTracer } from "../../src/ports/ports.ts";
import { createKernel } from "../../src/testing/kernel.ts";
import { createSimulatedStore } from "../../src/testing/simulated-store.ts";
import { noStoreFaults } from "../../src/testing/store-link.ts";
import { silentLog } from "../support/silent-log.ts";

const { config } = loadConfig({ overrides: { "locks.admission.waitMs": 0 } });
const terms = admissionLockTerms(config, "jitter");
const target = { tenant: "acme" as TenantId, lock: admissionLock };

/** The connection breaks while the acquire is under way: the release that gives it up may overtake it. */
async function giveUpDuringReset(seed: number) {
  const kernel = createKernel(seed);
  const server = createSimulatedStore(kernel);
  const process = kernel.process("p");
  const { clock, random } = process;
  const store = server.connect(process);
  const shaky = {
    ...store,
    acquireLock: (...call: Parameters<typeof store.acquireLock>) => {
      server.setFaults({ ...noStoreFaults, connectionResetRate: 1 });
      const answer = store.acquireLock(...call);
      server.setFaults(noStoreFaults);
      return answer;
    },
  };
  const ports = {
    store: shaky,
    clock,
    random,
    log: silentLog,
    metrics: new MemoryMetrics(10),
    tracer: silentTracer,
    instance: "p",
  };
  const outcome = await kernel.complete(withLease(ports, target, terms, async () => "worked"));
  // As long as the lost acquire may still arrive.
  await kernel.run({ untilMs: kernel.nowMs() + terms.callTimeoutMs + 100 });
  const inspected = await kernel.complete(store.inspectLock(target, { deadlineMs: 1_000 }));
  return { outcome: outcome.kind, lock: inspected.kind };
}

test("a lost acquire that arrives after the release that gave it up is released as well", async () => {
  for (let seed = 1; seed <= 100; seed += 1) {
    expect({ seed, ...(await giveUpDuringReset(seed)) }).toEqual({ seed, outcome: "unknown", lock: "free" });
  }
});
