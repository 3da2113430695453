// The operations of the SQLite store with a stopwatch in each, for its thread: every new maximum is sent to the benchmark.
import { openSync, readSync } from "node:fs";
import { BroadcastChannel } from "node:worker_threads";
import { operations as real } from "../src/adapters/operations/perform.ts";
import { SqliteCore } from "../src/adapters/sqlite/sqlite-core.ts";
import { budgetUs, type ToldTime, timesChannel, transaction } from "./operation-times.ts";

const longestUs = new Map<string, number>();
let channel: BroadcastChannel | undefined;

/**
 * How long this thread was ready and had no processor, so far. With two processors and more threads than that an operation of
 * 0.2 ms is now and then put aside for some milliseconds: the operation does not hold the store any longer for that.
 */
const schedule = openSchedule();
const text = Buffer.alloc(64);

function openSchedule(): number | undefined {
  try {
    return openSync("/proc/thread-self/schedstat", "r");
  } catch {
    return undefined;
  }
}

function waitedForProcessorUs(): number {
  if (schedule === undefined) return 0;
  const length = readSync(schedule, text, 0, text.length, 0);
  return Number(text.toString("latin1", 0, length).split(" ")[1]) / 1_000;
}

type Start = { readonly ms: number; readonly waitedUs: number };

function start(): Start {
  const waitedUs = waitedForProcessorUs();
  return { ms: performance.now(), waitedUs };
}

function note(name: string, begun: Start): void {
  const elapsedUs = (performance.now() - begun.ms) * 1_000;
  const isNotable = elapsedUs > budgetUs || elapsedUs > (longestUs.get(name) ?? 0);
  if (!isNotable) return;
  const us = elapsedUs - (waitedForProcessorUs() - begun.waitedUs);
  const isLongest = us > (longestUs.get(name) ?? 0);
  if (!isLongest && us <= budgetUs) return;
  if (isLongest) longestUs.set(name, us);
  channel ??= new BroadcastChannel(timesChannel);
  channel.unref();
  channel.postMessage({ name, us } satisfies ToldTime);
}

type Operation = (context: never, request: never) => unknown;

function timed(name: string, operation: Operation): Operation {
  return (context, request) => {
    const begun = start();
    try {
      return operation(context, request);
    } finally {
      note(name, begun);
    }
  };
}

export const operations = Object.fromEntries(
  Object.entries(real).map(([name, operation]) => [name, timed(name, operation as Operation)]),
) as typeof real;

const perform = SqliteCore.prototype.perform;
SqliteCore.prototype.perform = function timedPerform(calls, wallMs) {
  const begun = start();
  try {
    return perform.call(this, calls, wallMs);
  } finally {
    note(transaction, begun);
  }
};
