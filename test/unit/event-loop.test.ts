// The event loop as it is watched: who computed, what blocked it, and whose requests are shed when it is late.
import { describe, expect, test } from "vitest";
import { MemoryMetrics } from "../../src/adapters/memory-metrics.ts";
import { createComputing } from "../../src/control/computing.ts";
import type { TenantId } from "../../src/domain/tenant.ts";
import { createEventLoop } from "../../src/gateway/event-loop.ts";
import { loadConfig } from "../../src/load-config.ts";
import type { Clock } from "../../src/ports/ports.ts";

const acme = "acme" as TenantId;
const globex = "globex" as TenantId;
const initech = "initech" as TenantId;

/** Time passes by hand; a timer that is due is called when `turn` lets the loop go on. */
function handLoop() {
  let nowMs = 1_000;
  let timer: { readonly dueMs: number; readonly callback: () => void } | undefined;
  const clock: Clock = {
    monotonicMs: () => nowMs,
    wallMs: () => nowMs,
    sleep: () => Promise.resolve(),
    timer(ms, callback) {
      timer = { dueMs: nowMs + ms, callback };
      return () => {
        timer = undefined;
      };
    },
    yield: () => Promise.resolve(),
  };
  return {
    clock,
    passMs(ms: number) {
      nowMs += ms;
    },
    isWatched: () => timer !== undefined,
    turn() {
      nowMs = Math.max(nowMs, timer?.dueMs ?? nowMs);
      timer?.callback();
    },
  };
}

function watched(overrides: Parameters<typeof loadConfig>[0] = {}) {
  const loop = handLoop();
  const metrics = new MemoryMetrics(10);
  const lines: object[] = [];
  const write = (message: string, fields: object = {}) => lines.push({ message, ...fields });
  const computing = createComputing(loop.clock);
  const { config } = loadConfig(overrides);
  const ports = { clock: loop.clock, metrics, log: { info: write, warn: write, error: write } };
  const eventLoop = createEventLoop({ ports, config, computing });
  eventLoop.watch();
  const compute = (what: string, tenant: TenantId | undefined, ms: number) =>
    computing.time(what, tenant, () => loop.passMs(ms));
  return { loop, metrics, lines, computing, eventLoop, compute };
}

describe("a block of the event loop", () => {
  test("is measured, counted and logged with the operation and the tenant that computed", () => {
    const { loop, metrics, lines, compute } = watched();
    compute("getRun", globex, 3);
    compute("validateWorkflow", acme, 400);
    loop.turn();
    expect(metrics.observed("event_loop_block_seconds", { operation: "validateWorkflow" })).toEqual([0.4]);
    expect(metrics.total("event_loop_blocks_total")).toBe(1);
    expect(lines).toEqual([
      { message: "the event loop was blocked", operation: "validateWorkflow", tenant: "acme", ms: 400 },
    ]);
  });

  test("that nobody computed in is told as other, and short ones are not told at all", () => {
    const { loop, metrics, lines, compute } = watched();
    compute("getRun", acme, 30);
    loop.passMs(500);
    loop.turn();
    compute("getRun", acme, 30);
    loop.turn();
    expect(metrics.observed("event_loop_block_seconds")).toEqual([expect.closeTo(0.51, 2)]);
    expect(lines).toEqual([expect.objectContaining({ operation: "other", tenant: undefined })]);
  });

  test("below the setting is measured and not counted", () => {
    const { loop, metrics, lines, compute } = watched({ overrides: { "gateway.eventLoopBlockMs": 300 } });
    compute("startRun", acme, 200);
    loop.turn();
    expect(metrics.observed("event_loop_block_seconds", { operation: "startRun" })).toEqual([0.2]);
    expect({ counted: metrics.total("event_loop_blocks_total"), lines }).toEqual({ counted: 0, lines: [] });
  });

  test("is logged once in ten seconds, and the next line says how many were not", () => {
    const { loop, metrics, lines, compute } = watched();
    for (let count = 0; count < 11; count += 1) {
      compute("startRun", acme, 1_000);
      loop.turn();
    }
    expect(metrics.total("event_loop_blocks_total")).toBe(11);
    expect(lines.map((line) => "others" in line && line.others)).toEqual([false, 9]);
  });

  test("belongs to the work that was begun first, not to a part of it, and an exception ends it", () => {
    const { loop, computing } = watched();
    computing.time("startRun", acme, () => {
      computing.time("commit", globex, () => loop.passMs(50));
      loop.passMs(5);
    });
    expect(computing.takeLongest()).toEqual({ what: "startRun", tenant: acme, ms: 55 });
    const broken = () =>
      computing.time("getRun", globex, () => {
        loop.passMs(7);
        throw new Error("broken");
      });
    expect(broken).toThrow("broken");
    expect(computing.takeLongest()).toEqual({ what: "getRun", tenant: globex, ms: 7 });
    expect(computing.takeLongest()).toBeUndefined();
  });

  test("is looked for until the gateway stops", () => {
    const { loop, eventLoop } = watched();
    loop.turn();
    expect(loop.isWatched()).toBe(true);
    eventLoop.stop();
    expect(loop.isWatched()).toBe(false);
  });
});

describe("a loop that is late", () => {
  const tenants = [acme, globex, initech];

  test("sheds the tenants that used at least their share, nobody else, until it has caught up", () => {
    const { loop, eventLoop, compute } = watched();
    compute("getRun", globex, 5);
    compute("getRun", initech, 1);
    expect(tenants.filter((tenant) => eventLoop.sheds(tenant))).toEqual([]);
    compute("validateWorkflow", acme, 4_000);
    loop.turn();
    expect(tenants.filter((tenant) => eventLoop.sheds(tenant))).toEqual([acme]);
    for (let ticks = 0; ticks < 100; ticks += 1) loop.turn();
    expect(tenants.filter((tenant) => eventLoop.sheds(tenant))).toEqual([]);
  });

  test("sheds a tenant that is alone, and all that use the same: nothing else would end it", () => {
    const { loop, eventLoop, compute } = watched();
    compute("startRun", acme, 4_000);
    loop.turn();
    expect(eventLoop.sheds(acme)).toBe(true);
    compute("startRun", globex, 4_000);
    loop.turn();
    expect([eventLoop.sheds(acme), eventLoop.sheds(globex)]).toEqual([true, true]);
    expect(eventLoop.sheds(initech)).toBe(false);
  });

  test("sheds nobody when the tenants computed little: something else made it late", () => {
    const { loop, eventLoop, compute } = watched();
    compute("getRun", acme, 20);
    loop.passMs(4_000);
    loop.turn();
    expect(tenants.filter((tenant) => eventLoop.sheds(tenant))).toEqual([]);
  });

  test("forgets after ten seconds what a tenant used", () => {
    const { loop, eventLoop, compute } = watched();
    compute("startRun", acme, 9_000);
    loop.passMs(10_001);
    loop.turn();
    compute("startRun", globex, 1_000);
    loop.turn();
    expect([eventLoop.sheds(acme), eventLoop.sheds(globex)]).toEqual([false, true]);
  });

  test("keeps a bounded number of tenants in mind", () => {
    const { computing, compute } = watched();
    for (let index = 0; index < 10_000; index += 1) compute("getRun", `t-${index}` as TenantId, 0.01);
    compute("getRun", acme, 100);
    expect(computing.isAboveShare(acme)).toBe(false);
    expect(computing.isAboveShare("t-0" as TenantId)).toBe(true);
  });
});
