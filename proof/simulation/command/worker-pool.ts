// Simulates seeds on several cores: chunks go to child processes, and their reports come back.
import { type ChildProcess, fork } from "node:child_process";
import { join } from "node:path";
import type { SeedReport } from "../simulate.ts";
import { type BatchOptions, type BatchReport, BatchTotals } from "./batch.ts";
import { root } from "./regressions.ts";
import type { Chunk, SeedWork } from "./seed-work.ts";

export type FromWorker = { readonly kind: "free" } | { readonly kind: "report"; readonly report: SeedReport };

type PoolOptions = {
  readonly workers: number;
  /** Asked whenever a worker is free; undefined when nothing is left. */
  readonly next: () => Chunk | undefined;
  readonly onReport: (report: SeedReport, chunk: Chunk) => void;
  /** Ends all workers at once; what they have in hand is dropped. */
  readonly signal?: AbortSignal;
};

/** About half a second of work: the last ones to end are not waited for long. */
const seedsPerChunk = 5;

type PoolBatchOptions = BatchOptions & Pick<PoolOptions, "workers" | "signal">;

/** Like `simulateBatch`, and with the same report whatever the number of workers. */
export async function runBatch(options: PoolBatchOptions): Promise<BatchReport> {
  const { from, seeds, work = {}, workers, onSeed, signal } = options;
  const totals = new BatchTotals(from, work);
  const early = new Map<number, SeedReport>();
  const ended = new AbortController();
  let [handedOut, added] = [0, 0];
  const inOrder = (report: SeedReport) => {
    early.set(report.seed, report);
    while (!ended.signal.aborted) {
      const next = early.get(from + added);
      if (next === undefined) return;
      early.delete(next.seed);
      added += 1;
      totals.add(next);
      if (onSeed?.(next) === "stop") ended.abort();
    }
  };
  await runChunks({
    workers: Math.min(workers, Math.ceil(seeds / seedsPerChunk)),
    next: () => {
      const chunk = chunkAt({ from: from + handedOut, seeds: seeds - handedOut, work });
      handedOut += chunk?.seeds ?? 0;
      return chunk;
    },
    onReport: inOrder,
    signal: signal === undefined ? ended.signal : AbortSignal.any([signal, ended.signal]),
  });
  return totals.report();
}

function chunkAt(left: { readonly from: number; readonly seeds: number; readonly work: SeedWork }) {
  return left.seeds <= 0 ? undefined : { ...left, seeds: Math.min(seedsPerChunk, left.seeds) };
}

/** Resolves when everything was done, or the signal has ended it. */
export async function runChunks(options: PoolOptions): Promise<void> {
  const children: ChildProcess[] = [];
  try {
    const works = Array.from({ length: options.workers }, () => {
      const child = startWorker();
      children.push(child);
      return serve(child, options);
    });
    await Promise.all(works);
  } finally {
    for (const child of children) child.kill();
  }
}

/** Compiled also when asked by a test, which runs from source. */
function startWorker(): ChildProcess {
  return fork(join(root, "proof", "run-compiled.mjs"), ["simulation/command/worker"], {
    // As package.json starts the commands. All cores have a worker: a collector on several threads would take from the others.
    execArgv: ["--single-threaded-gc", "--max-semi-space-size=32"],
    stdio: ["ignore", "inherit", "inherit", "ipc"],
  });
}

/** Until nothing is left for this worker, or the signal comes; its death before that is an error. */
function serve(child: ChildProcess, { next, onReport, signal }: PoolOptions): Promise<void> {
  return new Promise((resolve, reject) => {
    let chunk: Chunk | undefined;
    const finish = () => {
      signal?.removeEventListener("abort", finish);
      child.removeAllListeners();
      // What is still said on the way out is of no interest.
      child.on("error", () => {});
      child.kill();
      resolve();
    };
    const handOut = () => {
      chunk = next();
      if (chunk === undefined) finish();
      else child.send(chunk);
    };
    if (signal?.aborted) {
      finish();
      return;
    }
    signal?.addEventListener("abort", finish);
    child.on("error", reject);
    child.on("exit", (code, killedBy) => {
      const inHand = chunk === undefined ? "its start" : `seeds from ${chunk.from} on`;
      reject(new Error(`a worker ended with ${killedBy ?? `exit code ${code}`} during ${inHand}`));
    });
    child.on("message", (message: FromWorker) => {
      if (message.kind === "free") handOut();
      else if (chunk !== undefined) onReport(message.report, chunk);
    });
  });
}
