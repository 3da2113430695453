// The simulated store that goes down and loses what was not durable, and processes that are struck in the middle of a call.
import { describe, expect, test } from "vitest";
import { DurableStream } from "../../proof/simulation/checks/durable-stream.ts";
import { JournaledRecords } from "../../proof/simulation/checks/journaled-records.ts";
import { type DurabilityLevel, holdsBack } from "../../proof/simulation/faults/loss-faults.ts";
import type { LockToken } from "../../src/domain/lock.ts";
import type { TenantId } from "../../src/domain/tenant.ts";
import type { Answer } from "../../src/ports/store.ts";
import { createKernel } from "../../src/testing/kernel.ts";
import {
  createSimulatedStore,
  type SimulatedStoreOptions,
  type StoreCall,
  type StoreExecution,
} from "../../src/testing/simulated-store.ts";
import { noStoreFaults, travelMsOf } from "../../src/testing/store-link.ts";

const acme = "acme" as TenantId;
const call = { deadlineMs: 1_000 };
/** One way; the lag until a change is durable is between 0.01 and this many times as long. */
const travelMs = 1;

function oneStore(options: SimulatedStoreOptions = {}) {
  const kernel = createKernel(1);
  const executed: string[] = [];
  const server = createSimulatedStore(kernel, {
    faults: { ...noStoreFaults, travelMsMax: travelMs },
    ...options,
    onOperation: (execution) => {
      executed.push(`${execution.caller} ${execution.name}`);
      options.onOperation?.(execution);
    },
  });
  const process = kernel.process("p");
  const store = server.connect(process);
  const acquire = (token: string, name = "one") => {
    const lock = { namespace: "public", name } as const;
    const request = { tenant: acme, lock, token: token as LockToken, instance: "p", ttlMs: 60_000 };
    return store.acquireLock(request, call);
  };
  return { kernel, server, process, acquire, executed };
}

describe("a store that goes down", () => {
  test("answers nobody who waits, executes nothing meanwhile, and its clock never goes back", async () => {
    const { kernel, server, acquire, executed } = oneStore({ heldBackMs: () => 50 });
    const asked = acquire("a");
    await kernel.run({ untilMs: 10 });
    expect(executed).toEqual(["p acquireLock"]);
    const beforeMs = server.timeMs();
    server.goDown({ downMs: 100, clockMs: -99 });
    expect(await kernel.complete(asked)).toMatchObject({ kind: "unknown", cause: "connection reset" });
    expect(await kernel.complete(acquire("b"))).toMatchObject({ kind: "unavailable" });
    expect(executed).toHaveLength(1);
    await kernel.run({ untilMs: 110 });
    expect(server.timeMs()).toBeGreaterThan(beforeMs);
    await kernel.run({ untilMs: 200 });
    expect(await kernel.complete(acquire("c"))).toMatchObject({ kind: "busy" });
  });

  test("cannot come back with a clock that would repeat itself", () => {
    const { server } = oneStore();
    expect(() => server.goDown({ downMs: 100, clockMs: -100 })).toThrow("never goes back");
  });
});

describe("what is not durable", () => {
  /** Two grants, of which the second is not durable when everything else is. */
  function lossyStore(level: DurabilityLevel) {
    const records = new JournaledRecords();
    const seen: string[] = [];
    const observe = (execution: StoreExecution) => {
      records.takeChanges();
      seen.push(`${execution.name} ${(execution.request as { token?: string }).token}`);
    };
    const world = oneStore({
      records,
      onOperation: (execution) => {
        stream.note(execution);
        observe(execution);
      },
      heldBackMs: (asked: StoreCall) => stream.heldBackMs(asked),
    });
    const faults = { level, lagMsMax: 5, lossEveryMs: 1, stallMsMax: 1, downMsMax: 1 };
    const stream: DurableStream = new DurableStream({ kernel: world.kernel, records, faults, holdsBack });
    return { ...world, records, seen, stream, observe };
  }

  test.each([
    ["synced", "pending"],
    ["replicated", "pending"],
    ["process", "acquired"],
  ] as const)(
    "at the level %s leaves its caller %s, and is taken back with all it changed",
    async (level, state) => {
      const { kernel, server, acquire, records, seen, stream, observe } = lossyStore(level);
      expect(await kernel.complete(acquire("a"))).toMatchObject({ kind: "acquired" });
      await kernel.run({ untilMs: kernel.nowMs() + 20 });
      stream.stall(500);
      let answer: Answer<"acquireLock"> | undefined;
      void acquire("b", "two").then((given) => {
        answer = given;
      });
      await kernel.run({ untilMs: kernel.nowMs() + 400 });
      expect(answer?.kind ?? "pending").toBe(state);
      expect(records.size("lock", acme)).toBe(2);
      seen.length = 0;
      const lost = stream.lose(() => seen.push("start over"), observe);
      server.goDown({ downMs: 20, clockMs: 0 });
      expect(lost.map(({ execution }) => execution.name)).toEqual(["acquireLock"]);
      expect(seen).toEqual(["start over", "acquireLock a"]);
      expect(records.size("lock", acme)).toBe(1);
      await kernel.run({ untilMs: kernel.nowMs() + 50 });
      if (state === "pending") expect(answer?.kind).toBe("unknown");
      expect(await kernel.complete(acquire("c", "two"))).toMatchObject({ kind: "acquired" });
    },
  );
});

describe("a process in the middle of a call", () => {
  test("that crashes before it sends has sent nothing; after it, the request arrives without it", async () => {
    for (const [moment, arrives] of [
      ["about to send", 0],
      ["sent", 1],
      ["answered", 1],
    ] as const) {
      const ghosts: string[] = [];
      const { kernel, acquire, executed } = oneStore({
        onMoment: (process, now) => {
          if (now === moment) process.crash();
        },
        onGhost: ({ name }) => ghosts.push(name),
      });
      let isAnswered = false;
      void acquire("a").then(() => {
        isAnswered = true;
      });
      await kernel.run({ untilMs: 2_000 });
      expect([moment, executed.length, isAnswered]).toEqual([moment, arrives, false]);
      expect(ghosts).toEqual(moment === "sent" ? ["acquireLock"] : []);
    }
  });

  test("that is paused before it sends sends after the pause, by the time that it then is", async () => {
    let isPaused = false;
    const { kernel, acquire } = oneStore({
      onMoment: (process) => {
        if (!isPaused) process.pause(5_000);
        isPaused = true;
      },
    });
    expect(await kernel.complete(acquire("a"))).toMatchObject({ kind: "acquired" });
    expect(kernel.nowMs()).toBeGreaterThan(5_000);
  });
});

test("travel times with a heavy tail are mostly short, and never longer than their bound", () => {
  const faults = { ...noStoreFaults, travelMsMax: 20, tail: { alpha: 1.2, msMax: 4_000 } };
  const times = Array.from({ length: 1_000 }, (_, index) => travelMsOf(faults, index / 1_000));
  expect(times.filter((ms) => ms < 20)).toHaveLength(811);
  expect(times.filter((ms) => ms > 500).length).toBeGreaterThan(2);
  expect(Math.max(...times)).toBeLessThanOrEqual(4_000);
});
