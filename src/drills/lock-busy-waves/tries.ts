// What became of many results for one run: every try of each, in milliseconds since all were sent at once.
import { quantile } from "../load/times.ts";
import type { DrillTenant } from "../target/target.ts";

/** How results are brought, whichever way. */
export type Reporting = {
  readonly tenant: DrillTenant;
  readonly withinMs: number;
  readonly signal: AbortSignal;
};

export type ResultTries = {
  /** When each try reached the run. */
  readonly sentMs: number[];
  /** When a try found the run busy. */
  readonly busyMs: number[];
  durableMs?: number;
};

export type Tries = {
  readonly results: ReadonlyMap<string, ResultTries>;
  /** When all were applied; undefined when the time was over before. */
  readonly endedMs: number | undefined;
  /** How long results waited for the run, as the instance measured it; empty where it cannot be watched. */
  readonly lockWaitsMs: readonly number[];
};

export function emptyTries(jobIds: readonly string[]): Map<string, ResultTries> {
  return new Map(jobIds.map((jobId) => [jobId, { sentMs: [], busyMs: [] }]));
}

/** The cap of the product as it is delivered: a result that needs more is a dead letter there. */
const deliveriesMaxDefault = 100;

export type Measured = {
  readonly sent: number;
  readonly durable: number;
  readonly totalMs: number | undefined;
  readonly busyRetries: number;
  /** Results by how often they had found the run busy. */
  readonly acquired: { readonly first: number; readonly afterOne: number; readonly later: number };
  readonly deliveriesMost: number;
  /** Results that needed more deliveries than are allowed by default. */
  readonly overCap: number;
  readonly lockWaitP95Ms: number | undefined;
  readonly latencyP95Ms: number | undefined;
};

export function measure({ results, endedMs, lockWaitsMs }: Tries): Measured {
  const all = [...results.values()];
  const durable = all.filter(({ durableMs }) => durableMs !== undefined);
  const countBy = (fits: (busy: number) => boolean) =>
    durable.filter(({ busyMs }) => fits(busyMs.length)).length;
  return {
    sent: all.length,
    durable: durable.length,
    totalMs: endedMs,
    busyRetries: all.reduce((sum, { busyMs }) => sum + busyMs.length, 0),
    acquired: {
      first: countBy((busy) => busy === 0),
      afterOne: countBy((busy) => busy === 1),
      later: countBy((busy) => busy > 1),
    },
    deliveriesMost: Math.max(0, ...all.map(({ sentMs }) => sentMs.length)),
    overCap: all.filter(({ sentMs }) => sentMs.length > deliveriesMaxDefault).length,
    lockWaitP95Ms: quantile(lockWaitsMs, 0.95),
    latencyP95Ms: quantile(
      durable.map(({ durableMs = 0 }) => durableMs),
      0.95,
    ),
  };
}

/** Every try but the first, in order. */
export function retriesOf({ results }: Tries): readonly number[] {
  return [...results.values()].flatMap(({ sentMs }) => sentMs.slice(1)).sort((left, right) => left - right);
}

/** The first retries of all results, their second ones, and so on. */
export function retriesByNumber({ results }: Tries): ReadonlyArray<readonly number[]> {
  const byNumber: number[][] = [];
  for (const { sentMs } of results.values()) {
    for (const [index, atMs] of sentMs.slice(1).entries()) {
      const group = byNumber[index] ?? [];
      group.push(atMs);
      byNumber[index] = group;
    }
  }
  return byNumber;
}
