// What of a worker's result becomes the step's output: all of it, or the part that was asked for, if it fits its schema.
import type { JsonValue } from "../fingerprint.ts";
import { listed } from "./begin-job.ts";
import { bodyOf, type Draft, outputAt, putPayload } from "./draft.ts";
import { outputRecordKey } from "./keys.ts";
import { writeOutput } from "./records.ts";
import { type StepInHand, succeed } from "./settle-step.ts";
import { failAttempt } from "./try-again.ts";

/** A result that does not fit counts as a failed attempt: another one may do better. */
export function applyOutput(draft: Draft, inHand: StepInHand, payloadKey: string): void {
  const { step, record } = inHand;
  if (step.resultPath === undefined && step.problemsOfOutput === undefined) {
    succeed(draft, inHand, payloadKey);
    return;
  }
  const body = bodyOf(draft, payloadKey);
  if (body === undefined) return;
  const output = valueAt(outputAt(draft, payloadKey), step.resultPath ?? []);
  const problem =
    output === undefined
      ? `the result has nothing at ${step.resultPath?.join(".")}`
      : listed(step.problemsOfOutput?.(output, draft.work) ?? []);
  if (output === undefined || problem !== "") {
    draft.events.push({ type: "step_output_invalid", step: step.id, attempt: record.attempt });
    failAttempt(draft, inHand, {
      status: "failed",
      cause: { error: { code: "output_invalid", message: problem } },
    });
    return;
  }
  if (step.resultPath === undefined) {
    succeed(draft, inHand, payloadKey);
    return;
  }
  const key = outputRecordKey(step.id);
  putPayload(draft, key, writeOutput(output));
  succeed(draft, inHand, key);
}

function valueAt(value: JsonValue, path: readonly string[]): JsonValue | undefined {
  let place: JsonValue | undefined = value;
  for (const name of path) {
    const isPlace =
      typeof place === "object" && place !== null && !Array.isArray(place) && Object.hasOwn(place, name);
    if (!isPlace) return undefined;
    place = (place as Record<string, JsonValue>)[name];
  }
  return place;
}
