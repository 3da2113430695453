// The simulator's kernel: order, virtual time, pauses, crashes, skewed clocks, determinism and deadlocks.
import { describe, expect, test } from "vitest";
import { systemClock } from "../../src/adapters/system/system.ts";
import { createKernel } from "../../src/testing/kernel.ts";
import { createSeededRandom } from "../../src/testing/seeded-random.ts";

describe("seeded random", () => {
  test("the same seed gives the same draws, another seed others", () => {
    const draw = (seed: number) => {
      const random = createSeededRandom(seed);
      return [random.fraction(), random.token(), random.integer(1, 1_000_000)];
    };
    expect(draw(1)).toEqual(draw(1));
    expect(draw(1)).not.toEqual(draw(2));
  });

  test("a draw in one stream does not disturb another", () => {
    const undisturbed = createSeededRandom(5).stream("b").fraction();
    const random = createSeededRandom(5);
    random.stream("a").token();
    random.fraction();
    expect(random.stream("b").fraction()).toBe(undisturbed);
  });

  test("a stream asked for again goes on where it was, so that its tokens stay unique", () => {
    const random = createSeededRandom(5);
    const tokens = Array.from({ length: 1000 }, () => random.stream("tokens").token());
    expect(new Set(tokens).size).toBe(1000);
    expect(tokens[0]).toMatch(/^[0-9a-f]{32}$/);
  });

  test("fractions are uniform and integers reach both ends", () => {
    const random = createSeededRandom(11);
    const fractions = Array.from({ length: 10_000 }, () => random.fraction());
    const mean = fractions.reduce((sum, fraction) => sum + fraction, 0) / fractions.length;
    expect(mean).toBeGreaterThan(0.48);
    expect(mean).toBeLessThan(0.52);
    const integers = new Set(Array.from({ length: 200 }, () => random.integer(2, 4)));
    expect([...integers].sort()).toEqual([2, 3, 4]);
  });

  test("every draw is counted, whatever the stream", () => {
    const random = createSeededRandom(1);
    random.fraction();
    random.stream("a").stream("b").token();
    expect(random.draws()).toBe(5);
  });
});

describe("order of events", () => {
  test("events happen at their time, whatever the order they were asked for", async () => {
    const kernel = createKernel(1);
    const seen: number[] = [];
    for (const delayMs of [30, 10, 20, 5, 25]) kernel.after(delayMs, () => seen.push(kernel.nowMs()));
    expect(await kernel.run({})).toEqual({ kind: "idle" });
    expect(seen).toEqual([5, 10, 20, 25, 30]);
  });

  test("events of the same moment come in an order that only the seed decides", async () => {
    const orders = new Set<string>();
    for (let seed = 0; seed < 20; seed += 1) {
      const order = async () => {
        const kernel = createKernel(seed);
        const seen: string[] = [];
        for (const name of ["a", "b", "c"]) kernel.after(10, () => seen.push(name));
        await kernel.run({});
        return seen.join("");
      };
      const first = await order();
      expect(await order()).toBe(first);
      orders.add(first);
    }
    expect(orders.size).toBeGreaterThan(3);
  });

  test("a cancelled event does not happen and does not move time", async () => {
    const kernel = createKernel(1);
    const cancel = kernel.after(10, () => expect.unreachable("it was cancelled"));
    cancel();
    await kernel.run({});
    expect(kernel.nowMs()).toBe(0);
  });

  test("promise chains of any depth settle before the next event", async () => {
    const kernel = createKernel(1);
    const seen: string[] = [];
    const chain = async (depth: number): Promise<void> => (depth === 0 ? undefined : chain(depth - 1));
    kernel.after(10, () => void chain(50).then(() => seen.push("chain")));
    kernel.after(10.001, () => seen.push("next"));
    await kernel.run({});
    expect(seen).toEqual(["chain", "next"]);
  });

  test("a run ends at a time, at a condition, or when its events are spent", async () => {
    const kernel = createKernel(1);
    let ticks = 0;
    const tick = () => {
      ticks += 1;
      kernel.after(10, tick);
    };
    tick();
    expect(await kernel.run({ untilMs: 35 })).toEqual({ kind: "time_reached" });
    expect([ticks, kernel.nowMs()]).toEqual([4, 35]);
    expect(await kernel.run({ until: () => ticks === 10 })).toEqual({ kind: "done" });
    expect(await kernel.run({ eventsMax: 5 })).toEqual({ kind: "events_spent" });
    expect(ticks).toBe(15);
  });

  test("a failure found inside a promise chain ends the run", async () => {
    const kernel = createKernel(1);
    kernel.after(10, () => kernel.fail(new Error("found")));
    kernel.after(20, () => expect.unreachable("the run has ended"));
    await expect(kernel.run({})).rejects.toThrow("found");
  });
});

describe("a process", () => {
  test("sleeps in virtual time and hears an abort at once", async () => {
    const kernel = createKernel(1);
    const { clock } = kernel.process("p");
    await kernel.complete(clock.sleep(60_000));
    expect(clock.monotonicMs()).toBe(60_000);
    const controller = new AbortController();
    clock.timer(5, () => controller.abort());
    await kernel.complete(clock.sleep(60_000, controller.signal));
    expect(clock.monotonicMs()).toBe(60_005);
  });

  test("has timers of whole milliseconds, at least one, and can cancel them", async () => {
    const kernel = createKernel(1);
    const { clock } = kernel.process("p");
    const seen: number[] = [];
    for (const ms of [0, 0.3, 2.9]) clock.timer(ms, () => seen.push(clock.monotonicMs()));
    clock.timer(3, () => expect.unreachable("it was cancelled"))();
    await kernel.run({});
    expect(seen).toEqual([1, 1, 2]);
  });

  test("that yields goes on at the same moment, after what was waiting for its turn", async () => {
    const kernel = createKernel(1);
    const { clock } = kernel.process("p");
    await kernel.complete(clock.yield());
    expect(clock.monotonicMs()).toBe(0);
    let yielded = 0;
    const work = async () => {
      for (; yielded < 1_000; yielded += 1) await clock.yield();
    };
    const working = work();
    clock.timer(1, () => expect(yielded).toBe(1_000));
    await kernel.complete(working);
  });

  test("on the real machine, of many that yield one goes on in each turn", async () => {
    let turns = 0;
    let isOver = false;
    const count = () => {
      turns += 1;
      if (!isOver) setImmediate(count);
    };
    setImmediate(count);
    await Promise.all(Array.from({ length: 20 }, () => systemClock.yield()));
    isOver = true;
    expect(turns).toBeGreaterThanOrEqual(19);
  });

  test("on the real machine, a yield lets what waits go first", async () => {
    const turns: string[] = [];
    systemClock.timer(0, () => turns.push("timer"));
    const endMs = systemClock.monotonicMs() + 60_000;
    // Without a turn for the timer this would go on for the whole minute.
    while (turns.length === 0 && systemClock.monotonicMs() < endMs) await systemClock.yield();
    expect(turns).toEqual(["timer"]);
  });

  test("measures with a clock of its own: rate, offset and jumps of the wall", async () => {
    const kernel = createKernel(1);
    const exact = kernel.process("exact");
    const fast = kernel.process("fast", { clockRate: 1.1, wallOffsetMs: 5_000 });
    const startMs = exact.clock.wallMs();
    await kernel.complete(fast.clock.sleep(1_100));
    expect(kernel.nowMs()).toBeCloseTo(1_000);
    expect(fast.clock.monotonicMs()).toBeCloseTo(1_100);
    expect(fast.clock.wallMs() - startMs).toBe(6_100);
    exact.jumpWall(-3_600_000);
    expect(exact.clock.wallMs() - startMs).toBe(1_000 - 3_600_000);
    expect(exact.clock.monotonicMs()).toBe(kernel.nowMs());
  });

  test("paused, does what came due only after the pause, in an order that the seed decides", async () => {
    const orders = new Set<string>();
    for (let seed = 0; seed < 20; seed += 1) {
      const kernel = createKernel(seed);
      const process = kernel.process("p");
      const seen: string[] = [];
      process.clock.timer(10, () => seen.push(`timer@${kernel.nowMs()}`));
      process.deliver(20, () => seen.push(`reply@${kernel.nowMs()}`));
      process.clock.timer(200, () => seen.push(`later@${kernel.nowMs()}`));
      process.pause(100);
      expect(process.state()).toBe("paused");
      await kernel.run({});
      expect(process.state()).toBe("running");
      expect(seen.at(-1)).toBe("later@200");
      expect([...seen].sort()).toEqual(["later@200", "reply@100", "timer@100"]);
      orders.add(seen.join(" "));
    }
    expect(orders.size).toBe(2);
  });

  test("paused, does not do what came due and was cancelled before the pause was over", async () => {
    const kernel = createKernel(1);
    const process = kernel.process("p");
    const cancel = process.deliver(20, () => expect.unreachable("it was cancelled"));
    process.pause(100);
    kernel.after(50, cancel);
    await kernel.run({});
    expect(kernel.nowMs()).toBe(100);
  });

  test("paused, cannot be woken by a signal that another process aborts", async () => {
    const kernel = createKernel(1);
    const process = kernel.process("p");
    const controller = new AbortController();
    const woken = process.clock.sleep(1_000, controller.signal).then(() => kernel.nowMs());
    process.pause(100);
    kernel.after(10, () => controller.abort());
    expect(await kernel.complete(woken)).toBe(100);
  });

  test("a second pause can only make the first one longer", async () => {
    const kernel = createKernel(1);
    const process = kernel.process("p");
    const woken = process.clock.sleep(1).then(() => kernel.nowMs());
    process.pause(100);
    process.pause(50);
    kernel.after(90, () => process.pause(60));
    expect(await kernel.complete(woken)).toBe(150);
  });

  test("crashed, settles nothing and runs no cleanup", async () => {
    const kernel = createKernel(1);
    const process = kernel.process("p");
    const seen: string[] = [];
    const controller = new AbortController();
    const work = async () => {
      try {
        await process.clock.sleep(100, controller.signal);
      } finally {
        seen.push("cleanup");
      }
    };
    void work();
    process.deliver(20, () => seen.push("reply"));
    kernel.after(10, () => process.crash());
    kernel.after(15, () => controller.abort());
    await kernel.run({});
    expect(seen).toEqual([]);
    void process.clock.sleep(1).then(() => seen.push("slept"));
    process.pause(10);
    await kernel.run({});
    expect([process.state(), seen]).toEqual(["crashed", []]);
  });

  test("crashed during a pause, stays crashed", async () => {
    const kernel = createKernel(1);
    const process = kernel.process("p");
    process.deliver(20, () => expect.unreachable("it has crashed"));
    process.pause(100);
    kernel.after(50, () => process.crash());
    await kernel.run({});
    expect(process.state()).toBe("crashed");
  });

  test("is started once under one name", () => {
    const kernel = createKernel(1);
    kernel.process("p");
    expect(() => kernel.process("p")).toThrow("already started");
  });
});

describe("completing a promise", () => {
  test("gives its value or its error", async () => {
    const kernel = createKernel(1);
    const { clock } = kernel.process("p");
    expect(await kernel.complete(clock.sleep(10).then(() => 7))).toBe(7);
    const failing = clock.sleep(10).then(() => Promise.reject(new Error("broken")));
    await expect(kernel.complete(failing)).rejects.toThrow("broken");
  });

  test("that nothing can settle any more is reported as a deadlock", async () => {
    const kernel = createKernel(1);
    const process = kernel.process("p");
    const never = process.clock.sleep(10);
    process.crash();
    await expect(kernel.complete(never)).rejects.toThrow("deadlock");
  });

  test("that never settles while events go on is stopped by their number", async () => {
    const kernel = createKernel(1);
    const { clock } = kernel.process("p");
    const forever = async () => {
      for (;;) await clock.sleep(10);
    };
    await expect(kernel.complete(forever(), { eventsMax: 100 })).rejects.toThrow("no end in sight");
  });
});

describe("the trace", () => {
  const trace = async (seed: number) => {
    const lines: string[] = [];
    const kernel = createKernel(seed, { onNote: (line) => lines.push(line) });
    for (const name of ["a", "b", "c"]) {
      const process = kernel.process(name);
      const work = async () => {
        for (let step = 0; step < 20; step += 1) {
          await process.clock.sleep(process.random.integer(1, 3));
          kernel.note(name, "step", step);
        }
      };
      void work();
    }
    await kernel.run({});
    return { hash: kernel.traceHash(), events: kernel.events(), lines };
  };

  test("is the same for the same seed and differs between seeds", async () => {
    const first = await trace(3);
    expect(await trace(3)).toEqual(first);
    expect((await trace(4)).hash).not.toBe(first.hash);
    expect(first.events).toBe(60);
    expect(first.lines[0]).toMatch(/^\d+ [abc] step 0$/);
  });

  test("notices a different number of draws even when the notes are equal", async () => {
    const hash = (draws: number) => {
      const kernel = createKernel(1);
      for (let draw = 0; draw < draws; draw += 1) kernel.random.fraction();
      return kernel.traceHash();
    };
    expect(hash(1)).not.toBe(hash(2));
  });
});
