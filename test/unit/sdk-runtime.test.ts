// The SDK's own clocks, names and signals, as they are outside of tests.
import { hostname } from "node:os";
import { describe, expect, test } from "vitest";
import { earlier, elapsedMs, later, runtime } from "../../src/sdk/runtime.ts";

const at = (monotonicMs: number, wallMs: number) => ({ monotonicMs, wallMs });

describe("moments", () => {
  test("move by both clocks, and of two each clock's earlier one counts", () => {
    expect(later(at(1, 100), 5)).toEqual(at(6, 105));
    expect(earlier(at(1, 100), at(2, 90))).toEqual(at(1, 90));
  });

  test("are as far apart as the clock says that went further", () => {
    expect(elapsedMs(at(1, 100), at(4, 101))).toBe(3);
    expect(elapsedMs(at(1, 100), at(2, 109))).toBe(9);
    expect(elapsedMs(at(1, 100), at(4, 90))).toBe(3);
  });
});

describe("a sleep", () => {
  /** Far longer than the test may take: only its signal ends it. */
  const longMs = 10 ** 10;

  test("ends with its signal, and at once with one that is aborted before", async () => {
    await runtime.sleep(longMs, AbortSignal.abort());
    const leaving = new AbortController();
    const sleeping = runtime.sleep(longMs, leaving.signal);
    leaving.abort();
    await sleeping;
    await runtime.sleep(0);
  });

  test("of months does not end at once, nor does such a timer fire", async () => {
    let isOver = false;
    const leaving = new AbortController();
    const sleeping = runtime.sleep(longMs, leaving.signal).then(() => {
      isOver = true;
    });
    const cancel = runtime.timer(longMs, () => {
      isOver = true;
    });
    await new Promise<void>((resolve) => runtime.timer(2, resolve));
    expect(isOver).toBe(false);
    cancel();
    leaving.abort();
    await sleeping;
  });
});

test("names are those of the machine, the process and its environment, tokens are new each time", () => {
  const machine = hostname().replaceAll(/[^A-Za-z0-9.-]/g, "-");
  expect(runtime.processName()).toBe(`${machine}-${process.pid}`);
  expect(runtime.environment("PATH")).toBe(process.env.PATH);
  expect(runtime.environment("INTERLOCK_NO_SUCH_NAME")).toBeUndefined();
  expect(runtime.token()).toMatch(/^[0-9a-f]{32}$/);
  expect(runtime.token()).not.toBe(runtime.token());
  expect(runtime.fraction()).toBeGreaterThanOrEqual(0);
  expect(runtime.fraction()).toBeLessThan(1);
});

test.each(["SIGTERM", "SIGINT"] as const)("%s is heard until nobody listens any more", (signal) => {
  const before = process.listenerCount(signal);
  const heard: string[] = [];
  const stop = runtime.onStopSignal((name) => heard.push(name));
  expect(process.listenerCount(signal)).toBe(before + 1);
  process.listeners(signal).at(-1)?.(signal);
  expect(heard).toEqual([signal]);
  stop();
  expect(process.listenerCount(signal)).toBe(before);
});

test("warnings are the process's own", async () => {
  const warned = new Promise((resolve) => process.once("warning", resolve));
  runtime.warn("something is odd");
  expect(await warned).toMatchObject({ name: "InterlockWarning", message: "something is odd" });
});
