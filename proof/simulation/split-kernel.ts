// A kernel whose randomness is split by tenant: draws for one tenant do not depend on what is done for another.
import { AsyncLocalStorage } from "node:async_hooks";
import { createKernel, type Gate, type Kernel, type KernelOptions } from "../../src/testing/kernel.ts";
import type { SeededRandom } from "../../src/testing/seeded-random.ts";
import { startProcess } from "../../src/testing/simulated-process.ts";

export type SplitKernel = Kernel & {
  /** Work that is done for this tenant, with all that follows from it. */
  within<Value>(tenant: string, work: () => Value): Value;
  /** What goes on from here is done for this tenant. */
  enter(tenant: string): void;
  current(): string;
};

/** What is done for no tenant, or for all. */
export const nobody = "nobody";

/**
 * So little that it moves nothing but the order of what would come at the same moment: that order is drawn by tenant as well,
 * and not by the kernel, which draws for all.
 */
const apartMs = 1e-6;

export function createSplitKernel(
  seed: number,
  options: KernelOptions,
  onNote: (tenant: string, line: string) => void,
): SplitKernel {
  const contexts = new AsyncLocalStorage<string>();
  const current = () => contexts.getStore() ?? nobody;
  const kernel = createKernel(seed, options);
  const random = splitRandom(kernel.random, current, []);
  const order = random.stream("order");
  const split: SplitKernel = {
    random,
    nowMs: () => kernel.nowMs(),
    after(delayMs, callback, gate = (due) => due.callback()) {
      const tenant = current();
      const within: Gate = (due) => contexts.run(tenant, () => gate(due));
      return kernel.after(delayMs + apartMs * order.fraction(), callback, within);
    },
    process: (name, options = {}) => startProcess(split, name, options),
    note(...parts) {
      kernel.note(...parts);
      onNote(current(), parts.join(" "));
    },
    fail: (error) => kernel.fail(error),
    run: (limits) => kernel.run(limits),
    complete: (promise, limits) => kernel.complete(promise, limits),
    events: () => kernel.events(),
    traceHash: () => kernel.traceHash(),
    within: (tenant, work) => contexts.run(tenant, work),
    enter: (tenant) => contexts.enterWith(tenant),
    current,
  };
  return split;
}

/** Every draw comes from the stream of this path in the part of the process that it is drawn for. */
function splitRandom(root: SeededRandom, current: () => string, path: readonly string[]): SeededRandom {
  const streams = new Map<string, SeededRandom>();
  const own = new Map<string, SeededRandom>();
  const stream = () => {
    const tenant = current();
    const found = own.get(tenant) ?? path.reduce((part, name) => part.stream(name), root.stream(tenant));
    own.set(tenant, found);
    return found;
  };
  return {
    token: () => stream().token(),
    fraction: () => stream().fraction(),
    integer: (min, max) => stream().integer(min, max),
    chance: (probability) => stream().chance(probability),
    pick: (items) => stream().pick(items),
    stream(name) {
      const found = streams.get(name) ?? splitRandom(root, current, [...path, name]);
      streams.set(name, found);
      return found;
    },
    draws: () => root.draws(),
  };
}
