// Whether a run only waits: then it may give its places back. Counted for workflows that ask for that.
import type { CompiledDefinition } from "../workflow/compiled.ts";
import { type RunProgress, type StepRecord, statusOfRun } from "./records.ts";

export function releasesPlaces({ flowControl }: CompiledDefinition): boolean {
  return flowControl?.releases === true;
}

/** Nothing goes on before an approval, a delay or an operator lets it. */
export function isIdle(run: RunProgress): boolean {
  return statusOfRun(run) === "waiting" && (run.busyWaits ?? 0) === 0;
}

export function countBusyWait(run: RunProgress, before: StepRecord, after: StepRecord): void {
  const change = Number(isBusyWait(after)) - Number(isBusyWait(before));
  if (change !== 0) run.busyWaits = (run.busyWaits ?? 0) + change;
}

/** A step that waits for what goes on by itself: its retry, or another run. */
function isBusyWait({ status, waitingFor }: StepRecord): boolean {
  return status === "waiting" && (waitingFor === "retry" || waitingFor === "child_run");
}
