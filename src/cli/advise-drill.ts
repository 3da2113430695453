// Tells which drill to run after a change of what admits runs: a limit, or how it is kept.
import type { Context } from "./context.ts";

/** By the API's names of a tenant's settings, and by the names of policies. */
const admissionSettings = new Set([
  "max_concurrent_runs",
  "admission_strategy",
  "admission_wait",
  "admission.strategy",
  "admission.wait",
]);

/** For people, beside the answer; nothing when the change is about something else. */
export function adviseDrill({ output, terminal }: Context, changed: Iterable<string>): void {
  const concerns = [...changed].some((name) => admissionSettings.has(name));
  if (!concerns) return;
  output.note(
    `This changes which runs are admitted. Run \`${terminal.calledAs} drill key-survives-429\`: it proves that a start refused now succeeds later with the same key.`,
  );
}
