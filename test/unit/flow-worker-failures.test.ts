// Functions as workers whose store client is broken: a call that throws costs a pause, never the worker or its result.
import { describe, expect, test } from "vitest";
import type { JobHandler } from "../../src/control/jobs/in-process-worker.ts";
import { loadConfig } from "../../src/load-config.ts";
import type { OperationName } from "../../src/ports/store.ts";
import { acme, type FlowPlane, FlowWorld, work } from "../support/flow-world.ts";

/** For minutes of virtual time. */
const seldomSwept = { overrides: { "sweep.everyMs": 5_000 } };

function startWorker(plane: FlowPlane, handler: JobHandler) {
  return plane.plane.startWorker({ tenant: acme, name: "w", topics: ["work"], concurrency: 2, handler });
}

/** A handler that takes this long by the worker's own clock, unless it is told to stop, and how each call ended. */
function slowly(plane: FlowPlane, ms: number) {
  const ends: string[] = [];
  const handler: JobHandler = async ({ signal }) => {
    await plane.member.process.clock.sleep(ms, signal);
    ends.push(signal.aborted ? "aborted" : "finished");
    return null;
  };
  return { handler, ends };
}

describe("a store call that throws", () => {
  /** A process whose next call of the operation named throws: its client is broken, and nothing was sent. */
  async function setUp() {
    const flow = new FlowWorld();
    let broken: OperationName | undefined;
    const plane = await flow.open("p", {
      ...seldomSwept,
      onSend({ name }) {
        if (name !== broken) return;
        broken = undefined;
        throw new Error("the client is broken");
      },
    });
    await plane.save("one", { a: work() });
    const breakNext = (name: OperationName) => {
      broken = name;
    };
    return { flow, plane, breakNext };
  }

  const leaseMs = loadConfig().config["jobs.leaseMs"];

  test("with a result does not lose it: the work is not done again", async () => {
    const { flow, plane, breakNext } = await setUp();
    const { handler, ends } = slowly(plane, 100);
    startWorker(plane, handler);
    const runId = await plane.start("one");
    await flow.pass(10);
    breakNext("deliver");
    expect(await flow.ended(runId, leaseMs / 2)).toBe("succeeded");
    expect(ends).toEqual(["finished"]);
  });

  test.each(["heartbeatJobs", "listReadyJobs"] as const)(
    "does not end a worker: %s is tried again before a claim is lost",
    async (name) => {
      const { flow, plane, breakNext } = await setUp();
      const { handler, ends } = slowly(plane, 3 * leaseMs);
      startWorker(plane, handler);
      const runId = await plane.start("one");
      await flow.pass(10);
      breakNext(name);
      expect(await flow.ended(runId, 600_000)).toBe("succeeded");
      expect(ends).toEqual(["finished"]);
      const failures = plane.member.lines.filter(({ fields }) => String(fields.cause).includes("broken"));
      expect(failures).toMatchObject([{ level: "error", fields: { tenant: acme, worker: "w" } }]);
    },
  );

  test("is tried again less and less often, never less often than a claim needs, while all of them throw", async () => {
    const flow = new FlowWorld();
    const tries: number[] = [];
    const plane = await flow.open("p", {
      ...seldomSwept,
      onSend({ name }) {
        if (name !== "listReadyJobs") return;
        tries.push(flow.nowMs());
        throw new Error("the client is broken");
      },
    });
    const worker = startWorker(plane, () => null);
    await flow.pass(20 * leaseMs);
    const gaps = tries.slice(1).map((atMs, index) => atMs - (tries[index] ?? 0));
    expect(Math.max(...gaps)).toBeLessThanOrEqual(leaseMs / 3 + 1);
    expect(Math.max(...gaps)).toBeGreaterThan(leaseMs / 12);
    expect(tries.length).toBeLessThan(20 * 30);
    await flow.finish(worker.stop());
  });
});
