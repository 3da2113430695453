// Callers that are turned away together do not come back together: the moments of their retries are spread over the whole period (INV-29).
import { describe, expect, test } from "vitest";
import { askUntilKnown } from "../../src/control/ask-until-known.ts";
import { acquireLease } from "../../src/control/locks/acquire-lease.ts";
import { admissionLockTerms } from "../../src/control/locks/lease-terms.ts";
import { admissionLock, retryAfterSeconds } from "../../src/domain/lock.ts";
import type { TenantId, WaitPolicy } from "../../src/domain/tenant.ts";
import { loadConfig } from "../../src/load-config.ts";
import { type Metrics, type Ports, silentTracer } from "../../src/ports/ports.ts";
import type { Store } from "../../src/ports/store.ts";
import { createKernel } from "../../src/testing/kernel.ts";
import { createSeededRandom } from "../../src/testing/seeded-random.ts";

const metrics: Metrics = { count: () => {}, observe: () => {}, set: () => {} };

const callers = 200;

/** All begin at the same moment; every call of theirs is answered at once, and its moment noted. */
async function retryMoments(
  ask: (ports: Ports) => Promise<unknown>,
  answer: object,
): Promise<readonly number[]> {
  const kernel = createKernel(1);
  const moments: number[] = [];
  const answered = async () => {
    moments.push(kernel.nowMs());
    return { ...answer, storeTimeMs: 0 };
  };
  const store = new Proxy({}, { get: () => answered }) as Store;
  const asking = Array.from({ length: callers }, (_, index) => {
    const { clock, random } = kernel.process(`caller-${index}`);
    const log = { info: () => {}, warn: () => {}, error: () => {} };
    return ask({ store, clock, random, log, metrics, tracer: silentTracer, instance: `caller-${index}` });
  });
  await kernel.complete(Promise.all(asking));
  return moments;
}

/** How full the fullest slice of a period is, against an even spread: 1 is flat, the number of slices is one wave. */
function peak(moments: readonly number[], periodMs: number): number {
  // Timers are whole milliseconds.
  const slices = Math.min(20, periodMs);
  const counts = new Array<number>(slices).fill(0);
  for (const moment of moments) {
    const slice = Math.floor(((moment % periodMs) / periodMs) * slices);
    counts[slice] = (counts[slice] ?? 0) + 1;
  }
  return Math.max(...counts) / (moments.length / slices);
}

const config = loadConfig({ overrides: {} }).config;
const tenant = "acme" as TenantId;

describe("the moments of retries", () => {
  test("are flat over the period when no answer comes", async () => {
    const unknown = { kind: "unknown", cause: "no answer", notAfterMs: 1 };
    const limits = { callTimeoutMs: 500, budgetMs: 3_000 };
    const ask = (ports: Ports) =>
      askUntilKnown(ports, "countActive", limits, (deadlineMs) =>
        ports.store.countActive({ tenant }, { deadlineMs }),
      );
    // The first few are close together by intent: what counts is what goes on.
    const moments = (await retryMoments(ask, unknown)).filter((moment) => moment > 500);
    expect(moments.length).toBeGreaterThan(10 * callers);
    expect(peak(moments, 160)).toBeLessThan(1.3);
  });

  test.each([
    ["jitter", 0, 1.3],
    // The baseline shows that this would be seen: everybody comes back in one wave.
    ["fixed", 9.9, 10.1],
  ] as const)("of a busy lock, waited for with %s", async (wait: WaitPolicy, above, below) => {
    const busy = { kind: "busy", instance: "somebody", freeInMs: 1_000 };
    const terms = admissionLockTerms(config, wait);
    const ask = (ports: Ports) => acquireLease(ports, { tenant, lock: admissionLock }, terms, undefined);
    const moments = (await retryMoments(ask, busy)).filter((moment) => moment > 500);
    const height = peak(moments, config["locks.admission.pollMs"]);
    expect(height).toBeGreaterThan(above);
    expect(height).toBeLessThan(below);
  });

  test("that Retry-After tells are spread evenly over its whole seconds", () => {
    const random = createSeededRandom(1);
    const counts = new Map<number, number>();
    for (let refused = 0; refused < 9_000; refused += 1) {
      const seconds = retryAfterSeconds(2, 1, random.fraction());
      counts.set(seconds, (counts.get(seconds) ?? 0) + 1);
    }
    expect([...counts.keys()].sort()).toEqual([2, 3, 4]);
    for (const count of counts.values()) expect(Math.abs(count - 3_000)).toBeLessThan(200);
  });

  test("end with the budget: no caller asks more often than its pauses allow", async () => {
    const unknown = { kind: "unknown", cause: "no answer", notAfterMs: 1 };
    const limits = { callTimeoutMs: 500, budgetMs: 1_500 };
    const ask = (ports: Ports) =>
      askUntilKnown(ports, "countActive", limits, (deadlineMs) =>
        ports.store.countActive({ tenant }, { deadlineMs }),
      );
    const moments = await retryMoments(ask, unknown);
    expect(Math.max(...moments)).toBeLessThan(1_500);
    // 80 ms apart on average once the pauses are at their longest.
    expect(moments.length / callers).toBeLessThan(30);
  });
});
