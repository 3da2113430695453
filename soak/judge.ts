// The verdict on a soak: every series flat, every kind of record trimmed often enough, nothing failed that should not.
import type { Kept } from "./kept.ts";
import { measureOf, type Series } from "./series.ts";
import { kinds, type RecordKind, type Tally } from "./tally.ts";

export type Trimmed = {
  readonly kind: RecordKind;
  readonly made: number;
  readonly kept: number;
  readonly trimmed: number;
  /** How often the whole stock was replaced. */
  readonly times: number;
};

/** Of 30 minutes; of others in proportion. */
const timesPerHalfHour = 12;

/**
 * A process still grows in its first minute: 20 MB in half a minute, 4 MB in the two after it; and a thousand events or a lock
 * have their time first. Shorter soaks tell both, and judge only what failed.
 */
const judgedMinutesMin = 2;

export function isLongEnough(minutes: number): boolean {
  return minutes >= judgedMinutesMin;
}

export function timesWanted(minutes: number): number {
  return (timesPerHalfHour * minutes) / 30;
}

export function countTrimmed(tally: Tally, { kept, numbered }: Kept): readonly Trimmed[] {
  return (Object.keys(kinds) as RecordKind[]).map((kind) => {
    if (kind === "timeline rows") {
      // Each timeline is a stock of its own.
      const times = tally.trimmedTimelines;
      return { kind, made: times, kept: 0, trimmed: times, times };
    }
    const made = numbered[kind] ?? tally.made.get(kind) ?? 0;
    const still = kept[kind] ?? 0;
    const trimmed = Math.max(0, made - still);
    return { kind, made, kept: still, trimmed, times: trimmed / Math.max(1, still) };
  });
}

export function violationsOf(facts: {
  readonly series: readonly Series[];
  readonly trimmed: readonly Trimmed[];
  readonly tally: Tally;
  readonly minutes: number;
}): readonly string[] {
  const { series, trimmed, tally, minutes } = facts;
  const wanted = timesWanted(minutes);
  return [
    ...(isLongEnough(minutes) ? series : []).flatMap(
      ({ name, flatness: { verdict, level, rise, riseMax } }) => {
        const { unit } = measureOf(name);
        if (verdict === "flat") return [];
        if (verdict === "too few points") return [`${name} has too few points to be judged`];
        return [
          `${name} rises by ${shown(rise)} ${unit} at a level of ${shown(level)}: at most ${shown(riseMax)}`,
        ];
      },
    ),
    ...(isLongEnough(minutes) ? trimmed : [])
      .filter(({ times }) => times < wanted)
      .map(
        ({ kind, times, made, kept }) =>
          `${kind} were trimmed ${shown(times)} times, not ${shown(wanted)}: ${made} made, ${kept} kept`,
      ),
    ...[...tally.failures].map(([what, { count, example }]) => `${what}, ${count} times: ${example}`),
  ];
}

/** Three digits that matter. */
export function shown(value: number): string {
  if (!Number.isFinite(value)) return "-";
  const size = Math.abs(value);
  return value.toLocaleString("en-US", { maximumFractionDigits: size >= 100 ? 0 : size >= 10 ? 1 : 2 });
}
