// What a process tells the others of changed tenants: the first at once, those that follow together, none left out.
import { expect, test } from "vitest";
import { createChangeAnnouncer } from "../../src/control/events/wakes.ts";
import type { TenantId } from "../../src/domain/tenant.ts";
import type { Bus } from "../../src/ports/bus.ts";
import type { Clock } from "../../src/ports/ports.ts";

function setUp() {
  const told: string[][] = [];
  let timer: { readonly ms: number; readonly run: () => void } | undefined;
  const clock = {
    timer(ms: number, run: () => void) {
      timer = { ms, run };
      return () => {
        timer = undefined;
      };
    },
  } as unknown as Clock;
  const bus = { announce: (_channel: string, body: string) => told.push(JSON.parse(body)) } as unknown as Bus;
  const announcer = createChangeAnnouncer(clock, bus);
  return {
    told,
    announcer,
    changed: (...tenants: readonly string[]) => {
      for (const tenant of tenants) announcer.changed(tenant as TenantId);
    },
    /** Fires the timer that is set, if one is, and says after how long that would have been. */
    fire() {
      const fired = timer;
      timer = undefined;
      fired?.run();
      return fired?.ms;
    },
  };
}

test("the first change after a silence is told at once, and those that follow together 10 ms later", () => {
  const { told, changed, fire } = setUp();
  changed("a");
  expect(told).toEqual([["a"]]);
  changed("a", "b", "b", "c");
  expect(told).toHaveLength(1);
  expect(fire()).toBe(10);
  expect(told).toEqual([["a"], ["a", "b", "c"]]);
});

test("after 10 ms without a change the next one is told at once again, and no timer is left", () => {
  const { told, changed, fire } = setUp();
  changed("a");
  expect(fire()).toBe(10);
  expect(fire()).toBeUndefined();
  changed("b");
  expect(told).toEqual([["a"], ["b"]]);
});

test("what is pending when the process stops is told, and nothing after that", () => {
  const { told, changed, announcer, fire } = setUp();
  changed("a", "b");
  announcer.close();
  changed("c");
  expect(fire()).toBeUndefined();
  expect(told.flat()).toEqual(["a", "b"]);
});
