// Measures in slices, round by round: a disturbance of the machine then meets all measurements alike, not one of them.
import type { Progress } from "./progress.ts";
import type { Measured } from "./report.ts";
import { mean, median } from "./statistics.ts";

/** How the values of the slices become one: the median for times and rates, the mean where every single event counts. */
export type Field = { readonly unit: string; readonly over: "median" | "mean" };

export type Measurement<Round> = {
  readonly name: string;
  /** How many rounds it takes part in. */
  readonly slices: number;
  readonly fields: Readonly<Record<string, Field>>;
  /** Measures one slice; gives a value for each of the fields. */
  measure(round: Round): Promise<Readonly<Record<string, number>>>;
};

export type Rounds<Round> = {
  readonly measurements: readonly Measurement<Round>[];
  /** What every round begins with, so that slices of the same measurement find the same state. */
  open(): Promise<Round>;
  close(round: Round): Promise<void>;
  readonly progress: Progress;
};

/** One metric per measurement and field, named `<measurement>.<field>`. */
export async function measureInSlices<Round>(rounds: Rounds<Round>): Promise<readonly Measured[]> {
  const { measurements, progress } = rounds;
  const samples = new Map<string, Array<Readonly<Record<string, number>>>>();
  const count = Math.max(...measurements.map(({ slices }) => slices));
  for (let index = 0; index < count; index += 1) {
    const round = await rounds.open();
    try {
      for (const measurement of measurements.filter(({ slices }) => slices > index)) {
        progress.step(`slice ${index + 1} of ${measurement.slices}: ${measurement.name}`);
        const sample = await measurement.measure(round);
        samples.set(measurement.name, [...(samples.get(measurement.name) ?? []), sample]);
      }
    } finally {
      await rounds.close(round);
    }
  }
  return measurements.flatMap(({ name, fields }) =>
    Object.entries(fields).map(([field, { unit, over }]) => {
      const slices = (samples.get(name) ?? []).map((sample) => sample[field] ?? Number.NaN);
      const value = over === "median" ? median(slices) : mean(slices);
      return { name: `${name}.${field}`, value, unit, slices };
    }),
  );
}

export function sliceCount(measurements: ReadonlyArray<{ readonly slices: number }>): number {
  return measurements.reduce((sum, { slices }) => sum + slices, 0);
}
