// What a process tells the others of changed tenants: the first at once, those that follow together, none left out.
import { describe, expect, test } from "vitest";
import { announceWatched, createChangeAnnouncer, createWakes } from "../../src/control/events/wakes.ts";
import type { TenantId } from "../../src/domain/tenant.ts";
import type { Bus } from "../../src/ports/bus.ts";
import type { Clock } from "../../src/ports/ports.ts";
import { FlowWorld } from "../support/flow-world.ts";
import { join } from "../support/simulated-ports.ts";

function setUp() {
  const announced: string[][] = [];
  let timer: { readonly ms: number; readonly run: () => void } | undefined;
  let nowMs = 0;
  const clock = {
    monotonicMs: () => nowMs,
    timer(ms: number, run: () => void) {
      timer = { ms, run };
      return () => {
        timer = undefined;
      };
    },
  } as unknown as Clock;
  const bus = {
    announce: (_channel: string, body: string) => announced.push(JSON.parse(body)),
  } as unknown as Bus;
  const announcer = createChangeAnnouncer(clock, bus);
  return {
    announced,
    announcer,
    changed: (...tenants: readonly string[]) => {
      for (const tenant of tenants) announcer.changed(tenant as TenantId);
    },
    /** Fires the timer that is set, if one is, and says after how long that would have been. */
    fire() {
      const fired = timer;
      timer = undefined;
      nowMs += fired?.ms ?? 0;
      fired?.run();
      return fired?.ms;
    },
  };
}

test("the first change after a silence is announced at once, and those that follow together 10 ms later", () => {
  const { announced, announcer, changed, fire } = setUp();
  announcer.watched();
  changed("a");
  expect(announced).toEqual([["a"]]);
  changed("a", "b", "b", "c");
  expect(announced).toHaveLength(1);
  expect(fire()).toBe(10);
  expect(announced).toEqual([["a"], ["a", "b", "c"]]);
});

test("after 10 ms without a change the next one is announced at once again, and no timer is left", () => {
  const { announced, announcer, changed, fire } = setUp();
  announcer.watched();
  changed("a");
  expect(fire()).toBe(10);
  expect(fire()).toBeUndefined();
  changed("b");
  expect(announced).toEqual([["a"], ["b"]]);
});

test("what is pending when the process stops is announced, and nothing after that", () => {
  const { announced, changed, announcer, fire } = setUp();
  changed("a", "b");
  announcer.close();
  changed("c");
  expect(fire()).toBeUndefined();
  expect(announced.flat()).toEqual(["a", "b"]);
});

test("what no other process watches is announced once a second, and within 10 ms from the moment at which one says that it does", () => {
  const { announced, announcer, changed, fire } = setUp();
  changed("a", "b");
  expect(fire()).toBe(1_000);
  changed("c");
  announcer.watched();
  expect(announced).toEqual([["a"], ["b"], ["c"]]);
  changed("d");
  expect(fire()).toBe(10);
  for (let elapsedMs = 0; elapsedMs < 15_000; elapsedMs += 10) {
    changed("e");
    if (fire() === 1_000) break;
  }
  changed("f");
  expect(fire()).toBe(1_000);
});

test("a thousand tenants are announced of at once, so that no announcement is too long for the bus", () => {
  const { announced, changed } = setUp();
  changed(...Array.from({ length: 2_500 }, (_, index) => `tenant-${index}`));
  expect(announced.map((each) => each.length)).toEqual([1, 1_000, 1_000]);
});

describe("a process in which something is watched", () => {
  const acme = "acme" as TenantId;

  /** Everything that was announced, with the time. */
  function watching() {
    const flow = new FlowWorld();
    const { clock } = join(flow.world, "watching").ports;
    const announced: number[] = [];
    const bus = { announce: () => announced.push(clock.monotonicMs()) } as unknown as Bus;
    const wakes = createWakes();
    const startedMs = clock.monotonicMs();
    const announcing = announceWatched(clock, bus, wakes);
    return { flow, wakes, announcing, times: () => announced.map((atMs) => atMs - startedMs) };
  }

  test("says so when the first begins to watch, and then every 5 s while anybody does", async () => {
    const { flow, wakes, announcing, times } = watching();
    await flow.pass(7_000);
    const stopWatching = wakes.watch(acme, () => {});
    wakes.watch(acme, () => {})();
    await flow.pass(10_000);
    stopWatching();
    await flow.pass(20_000);
    expect(times()).toEqual([7_000, 10_000, 15_000]);
    await flow.finish(announcing.stop());
  });

  test("says so no more often than every 5 s, however often somebody begins", async () => {
    const { flow, wakes, announcing, times } = watching();
    for (let second = 0; second < 10; second += 1) {
      wakes.watch(acme, () => {})();
      await flow.pass(1_000);
    }
    expect(times()).toEqual([0, 5_000]);
    await flow.finish(announcing.stop());
  });
});
