// Rates by what has passed them: every span of time up to now is counted anew at each start and each claim (INV-35).
import type { Amounts } from "../../../src/domain/budgets.ts";
import type { JobId } from "../../../src/domain/job.ts";
import type { StartRate, TopicRate } from "../../../src/domain/rates.ts";
import type { TenantId } from "../../../src/domain/tenant.ts";
import type { StoreExecution } from "../../../src/testing/simulated-store.ts";
import type { Marks } from "../invariants/marks.ts";
import { mustHold } from "../invariants/violation.ts";
import type { ChangeOf } from "./journaled-records.ts";

type Numbers = Pick<StartRate, "limit" | "perMs" | "burst">;

/** `atMs` is the time that had passed in the store, backward steps of its clock left out. */
type Passing = { readonly atMs: number; units: number };

type Passed = { readonly numbers: Numbers; passings: Passing[]; largest: number };

type Pass = {
  readonly name: string;
  readonly numbers: Numbers;
  readonly units: number;
  /** How much later it begins than it was judged. */
  readonly waitsMs?: number;
  /** Units may be given back. */
  readonly isMetered: boolean;
};

/** Older ones have drained: this many is more than a seed has in a span. */
const passingsMax = 300;
const millionths = 1_000_000;

export class RateChecks {
  readonly #marks: Marks;
  readonly #rates = new Map<string, Passed>();
  /** What each claim has counted in rates with a unit. */
  readonly #counted = new Map<
    JobId,
    ReadonlyArray<{ readonly rate: Passed; readonly unit: string; readonly passing: Passing; used: number }>
  >();
  #elapsedMs = 0;
  #lastMs = Number.POSITIVE_INFINITY;

  constructor(marks: Marks) {
    this.#marks = marks;
  }

  /** To be told of every operation: a level drains while time passes, and not when the clock is set back. */
  tick({ storeTimeMs }: StoreExecution): void {
    this.#elapsedMs += Math.max(0, storeTimeMs - this.#lastMs);
    this.#lastMs = storeTimeMs;
  }

  judgeRun(execution: StoreExecution, { scope, before, after }: ChangeOf<"run">): void {
    const { name, request, storeTimeMs } = execution;
    const wasRated = before?.gates?.startsAtMs;
    const goesOn = wasRated !== undefined && after?.gates?.startsAtMs === undefined;
    if (goesOn && after !== undefined && after.endReason === undefined) {
      mustHold(
        storeTimeMs >= wasRated,
        "INV-35",
        () => `${name} let ${after.runId} go on ${wasRated - storeTimeMs} ms before its rate would`,
      );
      this.#marks.hit("rated_run_goes_on");
    }
    if (before !== undefined || after === undefined || (name !== "admit" && name !== "createRun")) return;
    const waitsMs = Math.max(0, (after.gates?.startsAtMs ?? 0) - storeTimeMs);
    if (waitsMs > 0) this.#marks.hit("start_waits_for_rate");
    for (const { rate, atLimit, ...numbers } of request.run.rates ?? []) {
      const late = atLimit === "queue" ? { waitsMs } : {};
      this.#pass(execution, { name: `${scope} ${rate}`, numbers, units: 1, isMetered: false, ...late });
    }
  }

  claim(
    execution: StoreExecution,
    tenant: TenantId,
    job: { readonly jobId: JobId; readonly topic: string; readonly estimate: Amounts },
    rates: readonly TopicRate[],
  ): void {
    const counted = rates.flatMap(({ unit, ...numbers }) => {
      const units = unit === undefined ? 1 : Math.ceil((job.estimate[unit] ?? 0) / millionths);
      const name = `${tenant} ${job.topic} ${unit} ${numbers.perMs}`;
      const pass = this.#pass(execution, { name, numbers, units, isMetered: unit !== undefined });
      return unit === undefined ? [] : [{ ...pass, unit, used: units }];
    });
    if (counted.length > 0) this.#counted.set(job.jobId, counted);
  }

  /** It is known what a claim has used: less is given back, more counts from now on. */
  settle(jobId: JobId, used: Amounts): void {
    for (const each of this.#counted.get(jobId) ?? []) {
      const units = Math.ceil((used[each.unit] ?? 0) / millionths);
      const more = units - each.used;
      each.used = units;
      if (more > 0) each.rate.passings.push({ atMs: this.#elapsedMs, units: more });
      else each.passing.units += more;
      if (more > 0) this.#marks.hit("rate_overrun");
      if (more < 0) this.#marks.hit("rate_given_back");
    }
  }

  #pass({ name: by }: StoreExecution, { name, numbers, units, waitsMs = 0, isMetered }: Pass) {
    const rate = this.#rateOf(name, numbers);
    const passing = { atMs: this.#elapsedMs, units };
    rate.passings = [...rate.passings.slice(-passingsMax), passing];
    rate.largest = Math.max(rate.largest, units);
    const { limit, perMs, burst } = numbers;
    // What is given back counts where it was taken, though some of it may have drained since: at most one claim more passes.
    const most = Math.max(burst, units) + (isMetered ? 1 + rate.largest : 0);
    let passed = 0;
    for (const { atMs, units: each } of rate.passings.toReversed()) {
      passed += each;
      const spanMs = this.#elapsedMs + waitsMs - atMs;
      mustHold(
        passed * perMs <= most * perMs + limit * spanMs,
        "INV-35",
        () =>
          `${by} let ${passed} units pass ${name} in ${spanMs} ms, of ${limit} in ${perMs} and ${burst} at once`,
      );
    }
    return { rate, passing };
  }

  /** With other numbers what has passed is counted anew. */
  #rateOf(name: string, numbers: Numbers): Passed {
    const known = this.#rates.get(name);
    const { limit, burst } = numbers;
    if (known?.numbers.limit === limit && known.numbers.burst === burst) return known;
    const rate = { numbers, passings: [], largest: 0 };
    this.#rates.set(name, rate);
    return rate;
  }
}
