// Many seeds in their order: what they add up to, and whether they are enough to prove something.
import { fnv1a, fnv1aStart, fnv1aText } from "../../../src/testing/seeded-random.ts";
import type { InvariantName } from "../invariants/invariants.ts";
import { lossMarks, type Mark, Marks, seedsForAllMarks } from "../invariants/marks.ts";
import type { SeedReport } from "../simulate.ts";
import { type SeedWork, simulateWork } from "./seed-work.ts";

export type BrokenSeed = Required<SeedReport>;

export type BatchOptions = {
  readonly from: number;
  /** Without a bound when infinite. */
  readonly seeds: number;
  readonly work?: SeedWork;
  /** Called after every seed, in order; `stop` ends the batch. */
  readonly onSeed?: (report: SeedReport) => "go on" | "stop";
};

export type BatchReport = {
  readonly from: number;
  readonly seeds: number;
  readonly events: number;
  readonly virtualMs: number;
  readonly operations: number;
  readonly faults: Readonly<Record<string, number>>;
  readonly marks: Marks;
  /** Over the hashes of all seeds: the same for every run of this batch. */
  readonly hash: string;
  /** The first of those that broke something; `brokenSeeds` counts all. */
  readonly broken: readonly BrokenSeed[];
  readonly brokenSeeds: number;
  readonly brokenBy: ReadonlyMap<InvariantName, number>;
  /** Marks that a batch of this size must hit, and this one did not. */
  readonly missing: readonly Mark[];
};

/** More are only counted: with a bug planted, every seed of a long run may break. */
const brokenKeptMax = 100;

/** One after the other in this process; `runBatch` does the same with several. */
export async function simulateBatch(options: BatchOptions): Promise<BatchReport> {
  const { from, onSeed, seeds, work = {} } = options;
  const totals = new BatchTotals(from, work);
  for (let done = 0; done < seeds; done += 1) {
    const report = await simulateWork(from + done, work);
    totals.add(report);
    if (onSeed?.(report) === "stop") break;
  }
  return totals.report();
}

/** Reports must be added in the order of their seeds: the hash depends on it. */
export class BatchTotals {
  readonly #from: number;
  readonly #work: SeedWork;
  readonly #marks = new Marks();
  readonly #faults = new Map<string, number>();
  readonly #broken: BrokenSeed[] = [];
  readonly #brokenBy = new Map<InvariantName, number>();
  #seeds = 0;
  #brokenSeeds = 0;
  #events = 0;
  #virtualMs = 0;
  #operations = 0;
  #hash = fnv1aStart;

  constructor(from: number, work: SeedWork) {
    this.#from = from;
    this.#work = work;
  }

  add(report: SeedReport): void {
    if (report.seed !== this.#from + this.#seeds) throw new Error(`seed ${report.seed} is out of its order`);
    this.#seeds += 1;
    this.#events += report.events;
    this.#virtualMs += report.virtualMs;
    this.#operations += report.operations;
    this.#hash = fnv1a(this.#hash, report.hash);
    this.#marks.addAll(report.marks);
    for (const [kind, hits] of Object.entries(report.faults)) {
      this.#faults.set(kind, (this.#faults.get(kind) ?? 0) + hits);
    }
    const { violation } = report;
    if (violation === undefined) return;
    this.#brokenSeeds += 1;
    this.#brokenBy.set(violation.invariant, (this.#brokenBy.get(violation.invariant) ?? 0) + 1);
    if (this.#broken.length < brokenKeptMax) this.#broken.push({ ...report, violation });
  }

  report(): BatchReport {
    // A mistake, a smaller world or one tenant's day may well keep something from happening.
    const { bug, reduce, compare, store } = this.#work;
    const whole = bug === undefined && reduce === undefined && compare === undefined;
    const missing = this.#marks.missing().filter((mark) => store !== "sqlite" || !lossMarks.includes(mark));
    return {
      from: this.#from,
      seeds: this.#seeds,
      events: this.#events,
      virtualMs: this.#virtualMs,
      operations: this.#operations,
      faults: Object.fromEntries([...this.#faults].sort(([left], [right]) => (left < right ? -1 : 1))),
      marks: this.#marks,
      hash: fnv1aText(this.#hash),
      broken: this.#broken,
      brokenSeeds: this.#brokenSeeds,
      brokenBy: this.#brokenBy,
      missing: whole && this.#seeds >= seedsForAllMarks ? missing : [],
    };
  }
}
