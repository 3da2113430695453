// The few statistics that benchmarks print.

/** The middle value; between two middle values, their mean. */
export function median(values: readonly number[]): number {
  const sorted = ascending(values);
  const upper = sorted[Math.floor(sorted.length / 2)];
  const lower = sorted[Math.ceil(sorted.length / 2) - 1];
  return upper === undefined || lower === undefined ? Number.NaN : (lower + upper) / 2;
}

export function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

/** The smallest value that at least `percent` of all values do not exceed. */
export function percentile(values: readonly number[], percent: number): number {
  const rank = Math.ceil((percent / 100) * values.length);
  return ascending(values)[Math.max(0, rank - 1)] ?? Number.NaN;
}

function ascending(values: readonly number[]): number[] {
  return [...values].sort((left, right) => left - right);
}
