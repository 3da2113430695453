// Puts the server's times on the drill's own clock: another machine's may show a different time.
import type { EndRecord, StartRecord } from "./ledger.ts";
import { quantile } from "./times.ts";

/** A run is created between the sending of its start and the answer: what lies outside on the whole is the clocks' difference. */
export function withoutSkew(
  starts: readonly StartRecord[],
  ends: readonly EndRecord[],
): readonly EndRecord[] {
  const skewMs = skewOf(starts, ends);
  return ends.map((end) => {
    if (end.run === undefined) return end;
    const { createdAtMs, endedAtMs } = end.run;
    const moved = endedAtMs === undefined ? undefined : endedAtMs - skewMs;
    return { ...end, run: { ...end.run, createdAtMs: createdAtMs - skewMs, endedAtMs: moved } };
  });
}

function skewOf(starts: readonly StartRecord[], ends: readonly EndRecord[]): number {
  const createdAtMs = new Map(ends.map(({ key, run }) => [key, run?.createdAtMs]));
  // One try alone: of several it is not known which one made the run.
  const differences = starts.flatMap(({ key, tries }) => {
    const [only, ...others] = tries;
    const created = createdAtMs.get(key);
    if (only === undefined || others.length > 0 || created === undefined) return [];
    return [created - (only.sentMs + only.tookMs / 2)];
  });
  return quantile(differences, 0.5) ?? 0;
}
