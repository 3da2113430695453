// The operations of the SQLite store with a stopwatch in each, for its thread: every new longest time is told to the benchmark.
import { BroadcastChannel } from "node:worker_threads";
import { operations as real } from "../src/adapters/operations/perform.ts";
import { SqliteCore } from "../src/adapters/sqlite/sqlite-core.ts";
import { budgetUs, type ToldTime, timesChannel, transaction } from "./operation-times.ts";

const longestUs = new Map<string, number>();
let channel: BroadcastChannel | undefined;

function note(name: string, startMs: number): void {
  const us = (performance.now() - startMs) * 1_000;
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
    const startMs = performance.now();
    try {
      return operation(context, request);
    } finally {
      note(name, startMs);
    }
  };
}

export const operations = Object.fromEntries(
  Object.entries(real).map(([name, operation]) => [name, timed(name, operation as Operation)]),
) as typeof real;

const perform = SqliteCore.prototype.perform;
SqliteCore.prototype.perform = function timedPerform(calls, wallMs) {
  const startMs = performance.now();
  try {
    return perform.call(this, calls, wallMs);
  } finally {
    note(transaction, startMs);
  }
};
