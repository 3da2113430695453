// What the control plane must have counted during a drill: a metric with its labels, and by how much it rose.
import type { CounterName } from "../../metrics.ts";
import { type Check, check } from "../drill.ts";
import type { Reading, Target } from "../target/target.ts";

export type Counted = {
  readonly metric: CounterName;
  readonly labels: Readonly<Record<string, string>>;
  readonly times: number;
  /** Whether more may be counted than that, although nobody else is there. */
  readonly orMore?: true;
};

/** Begins to count. On a deployment others may be counted at the same time. */
export async function openCounts(
  target: Target,
): Promise<{ check(expected: readonly Counted[]): Promise<readonly Check[]> }> {
  const before = await target.readMetrics();
  return {
    async check(expected) {
      const now = await target.readMetrics();
      return expected.map((counted) =>
        checkRise(target.kind === "deployment" ? { ...counted, orMore: true } : counted, { before, now }),
      );
    },
  };
}

type Readings = { readonly before: Reading; readonly now: Reading };

function checkRise({ metric, labels, times, orMore }: Counted, { before, now }: Readings): Check {
  const rise = now.sum(metric, labels) - before.sum(metric, labels);
  const shown = Object.entries(labels).map(([name, value]) => `${name}="${value}"`);
  return check(
    `${metric}{${shown.join(", ")}}`,
    `up by ${times}${orMore === true ? " or more" : ""}`,
    `up by ${rise}`,
    orMore === true ? rise >= times : rise === times,
  );
}
