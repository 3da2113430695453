// Readiness changes the store to learn whether it takes changes, and leaves no lock behind.
import { expect, test } from "vitest";
import { createMemoryStore } from "../../src/adapters/memory-store.ts";
import { systemClock, systemRandom } from "../../src/adapters/system/system.ts";
import { createReadiness } from "../../src/control/readiness.ts";
import { platformTenant } from "../../src/domain/tenant.ts";
import { loadConfig } from "../../src/load-config.ts";
import { defaultStoreSettings, type Store } from "../../src/ports/store.ts";

function setUp() {
  const store = createMemoryStore({ clock: systemClock, settings: defaultStoreSettings });
  let calls = 0;
  let isLost = false;
  let nowMs = 0;
  const acquireLock: Store["acquireLock"] = async (request, options) => {
    calls += 1;
    const answer = await store.acquireLock(request, options);
    return isLost ? { kind: "unknown", cause: "no answer", notAfterMs: 0 } : answer;
  };
  const ports = {
    clock: { ...systemClock, monotonicMs: () => nowMs },
    random: systemRandom,
    store: { ...store, acquireLock },
    instance: "host:1",
  };
  const { config } = loadConfig();
  return {
    readiness: createReadiness({ ports, config }),
    calls: () => calls,
    loseAnswers: (lost: boolean) => {
      isLost = lost;
    },
    pass: (ms: number) => {
      nowMs += ms;
    },
    lock: () =>
      store.inspectLock(
        { tenant: platformTenant, lock: { namespace: "public", name: "readiness/host:1" } },
        { deadlineMs: 1_000 },
      ),
  };
}

test("many questions within a second are one change, whose lock is given back", async () => {
  const { readiness, calls, lock, pass } = setUp();
  const answers = await Promise.all([readiness.check(), readiness.check(), readiness.check()]);
  expect(answers).toEqual([{ kind: "ready" }, { kind: "ready" }, { kind: "ready" }]);
  expect(calls()).toBe(1);
  expect(await lock()).toMatchObject({ kind: "free" });
  pass(1_000);
  await readiness.check();
  expect(calls()).toBe(2);
});

test("a change whose answer was lost after its effect is not ready, and its lock is given back all the same", async () => {
  const { readiness, lock, loseAnswers, pass } = setUp();
  loseAnswers(true);
  expect(await readiness.check()).toMatchObject({ kind: "store_unavailable" });
  expect(await lock()).toMatchObject({ kind: "free" });
  loseAnswers(false);
  pass(1_000);
  expect(await readiness.check()).toEqual({ kind: "ready" });
});
