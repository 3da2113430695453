// Durations as counts in buckets that grow by 5 %: small enough to send to other processes, exact enough to compare two shares.
/** Counts by number of bucket; only those that hold something. */
export type Histogram = Readonly<Record<string, number>>;

const smallestMs = 0.1;
const growth = 1.05;
/** About ten minutes: 320 buckets at most. */
const lastBucket = 320;

export function bucketOf(durationMs: number): number {
  if (!(durationMs > smallestMs)) return 0;
  return Math.min(lastBucket, Math.ceil(Math.log(durationMs / smallestMs) / Math.log(growth)));
}

/** The middle of a bucket, at most 2.5 % from what fell into it. */
export function bucketMs(bucket: number): number {
  return bucket === 0 ? 0 : smallestMs * growth ** (bucket - 0.5);
}

export function countOf(histogram: Histogram): number {
  return Object.values(histogram).reduce((sum, amount) => sum + amount, 0);
}

/** The duration that this share of all is not above; undefined when there is none. */
export function percentileMs(histogram: Histogram, fraction: number): number | undefined {
  const wanted = Math.ceil(countOf(histogram) * fraction);
  let seen = 0;
  // Names that are whole numbers come in ascending order.
  for (const [bucket, amount] of Object.entries(histogram)) {
    seen += amount;
    if (seen >= wanted) return bucketMs(Number(bucket));
  }
  return undefined;
}

export function mergedHistogram(one: Histogram, other: Histogram): Histogram {
  const sum: Record<string, number> = { ...one };
  for (const [bucket, amount] of Object.entries(other)) sum[bucket] = (sum[bucket] ?? 0) + amount;
  return sum;
}
