// The output of a whole run: the outputs of its last steps.
import type { JsonValue } from "../fingerprint.ts";
import type { CompiledDefinition, CompiledStep } from "../workflow/compiled.ts";
import { outputCharactersMax } from "./collect.ts";
import { bodyOf, type Draft, outputAt, payloadsPerRound, putPayload, stepOf } from "./draft.ts";
import { runOutputKey } from "./keys.ts";
import { omittedOutput } from "./records.ts";

/** Steps that nobody depends on, that begin by themselves. */
export function lastSteps(compiled: CompiledDefinition): readonly CompiledStep[] {
  return [...compiled.steps.values()].filter(
    ({ dependents, handlesErrors, controller }) =>
      dependents.length === 0 && !handlesErrors && controller === undefined,
  );
}

/** The output of a single last step, or all of them by name; only of those that have one. */
export function outputOfRun(
  compiled: CompiledDefinition,
  outputOf: (step: CompiledStep) => JsonValue | undefined,
): JsonValue {
  const last = lastSteps(compiled);
  const [only] = last;
  if (last.length === 1 && only !== undefined) return outputOf(only) ?? null;
  const named = last.flatMap((step) => {
    const output = outputOf(step);
    return output === undefined ? [] : [[step.id, output] as const];
  });
  return Object.fromEntries(named);
}

/** Kept with a child run when it succeeds, so that its parent finds it; false while records are missing. */
export function keepOutput(draft: Draft): boolean {
  const outputs = new Map<string, JsonValue>();
  let isComplete = true;
  let unread = 0;
  let characters = 0;
  for (const { id } of lastSteps(draft.compiled)) {
    if (unread >= payloadsPerRound || characters > outputCharactersMax) break;
    const record = stepOf(draft, id);
    const body = record?.outputKey === undefined ? undefined : bodyOf(draft, record.outputKey);
    if (record === undefined || (record.outputKey !== undefined && body === undefined)) isComplete = false;
    if (record?.outputKey !== undefined && body === undefined) unread += 1;
    if (typeof body !== "string") continue;
    const output = outputAt(draft, record?.outputKey);
    outputs.set(id, output);
    characters += JSON.stringify(output).length;
  }
  if (!isComplete) return false;
  const output = outputOfRun(draft.compiled, ({ id }) => outputs.get(id));
  const text = JSON.stringify({ output });
  // Larger ones stay with the child's steps, where a mapping can name the part it needs. That is noted too: nothing at all means
  // that the child was deleted.
  putPayload(draft, runOutputKey, text.length <= outputCharactersMax ? text : omittedOutput);
  return true;
}
