// Whether a series of measurements is flat: a robust slope, what it adds up to over the time, and the bound for that.
import { median } from "../bench/statistics.ts";

export type Point = { readonly atMs: number; readonly value: number };

/** How much a series may rise over the whole measured time: the larger of a share of its level and a floor. */
export type Bound = { readonly share: number; readonly floor: number };

export type Flatness = {
  readonly verdict: "flat" | "rises" | "too few points";
  /** The middle value. */
  readonly level: number;
  /** The slope times the measured time. */
  readonly rise: number;
  readonly riseMax: number;
  /** A line through the middle, for the plot. */
  readonly line: readonly [Point, Point] | undefined;
};

/** With fewer points two outliers decide. */
const pointsMin = 5;

/** Only a rise is a finding: a series that falls has nothing that piles up. */
export function judgeFlatness(points: readonly Point[], bound: Bound): Flatness {
  const level = median(points.map(({ value }) => value));
  const [first, last] = [points[0], points.at(-1)];
  if (first === undefined || last === undefined || points.length < pointsMin)
    return { verdict: "too few points", level, rise: Number.NaN, riseMax: Number.NaN, line: undefined };
  const slope = theilSen(points);
  const rise = slope * (last.atMs - first.atMs);
  const riseMax = Math.max(bound.share * Math.abs(level), bound.floor);
  const middleMs = median(points.map(({ atMs }) => atMs));
  const onLine = (atMs: number) => ({ atMs, value: level + slope * (atMs - middleMs) });
  return {
    verdict: rise > riseMax ? "rises" : "flat",
    level,
    rise,
    riseMax,
    line: [onLine(first.atMs), onLine(last.atMs)],
  };
}

/**
 * The middle of the slopes between all pairs: up to 29 % of the points may be wild without moving it, where one stall of the
 * machine would tilt a line of least squares.
 */
export function theilSen(points: readonly Point[]): number {
  const slopes: number[] = [];
  for (const [index, left] of points.entries()) {
    for (const right of points.slice(index + 1)) {
      if (right.atMs !== left.atMs) slopes.push((right.value - left.value) / (right.atMs - left.atMs));
    }
  }
  return median(slopes);
}
