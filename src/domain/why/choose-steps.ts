// Which of many open steps are looked at: some of every kind, those that wait longest first.
import type { StepRecord } from "../engine/records.ts";

export type OpenStep = { readonly stepId: string; readonly record: StepRecord };

/** Takes turns between the kinds of waiting, so that a thousand running jobs do not hide the one approval. */
export function chooseSteps(open: readonly OpenStep[], amountMax: number): readonly OpenStep[] {
  const kinds = new Map<string, OpenStep[]>();
  for (const step of [...open].sort(oldestFirst)) {
    const kind = step.record.waitingFor ?? "job";
    const same = kinds.get(kind);
    if (same === undefined) kinds.set(kind, [step]);
    else same.push(step);
  }
  const chosen: OpenStep[] = [];
  for (let turn = 0; chosen.length < Math.min(amountMax, open.length); turn += 1) {
    for (const steps of kinds.values()) {
      const step = steps[turn];
      if (step !== undefined && chosen.length < amountMax) chosen.push(step);
    }
  }
  return chosen;
}

function oldestFirst(left: OpenStep, right: OpenStep): number {
  return (left.record.startedAtMs ?? 0) - (right.record.startedAtMs ?? 0);
}
