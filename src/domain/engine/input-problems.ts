// What is wrong with the input of a new run: it does not fit its schema, or nobody could read it again at every step.
import type { JsonValue } from "../fingerprint.ts";
import type { Allowance, CompiledDefinition, Problem } from "../workflow/compiled.ts";

/** Every commit that needs the input reads it again, in one go: 250 ns for a list or object, 50 ns for any other value. */
const weightMax = 800_000;
const containerWeight = 5;

const tooMany = `holds too many values: at most ${weightMax / containerWeight} lists and objects, or ${weightMax} others`;

export function problemsOfInput(
  compiled: CompiledDefinition,
  input: JsonValue,
  work?: Allowance,
): readonly Problem[] {
  if (weighsMore(input)) return [{ path: "input", message: tooMany }];
  return compiled.problemsOfInput(input, work);
}

function weighsMore(input: JsonValue): boolean {
  let weight = 0;
  const pending = [input];
  for (let value = pending.pop(); value !== undefined; value = pending.pop()) {
    const inner = value === null || typeof value !== "object" ? undefined : Object.values(value);
    weight += inner === undefined ? 1 : containerWeight;
    if (weight + (inner?.length ?? 0) > weightMax) return true;
    for (const member of inner ?? []) pending.push(member);
  }
  return false;
}
