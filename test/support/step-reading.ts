// Reads one step of a definition whose other steps may be named: what is read of it, and where exactly it is wrong.
import { expect } from "vitest";
import type { JsonValue } from "../../src/domain/fingerprint.ts";
import { readDefinition } from "../../src/domain/workflow/definition.ts";

export type Fields = { readonly [name: string]: JsonValue };

/** Steps that others may name. */
const others: Fields = { x: {}, y: {}, z: {} };

export function problemsOf(step: Fields, more: Fields = {}): (readonly [string, string])[] {
  const reading = readDefinition({ id: "me", steps: { a: step, ...others, ...more } });
  return reading.kind === "invalid" ? reading.problems.map(({ path, message }) => [path, message]) : [];
}

export function stepOf(step: Fields, more: Fields = {}) {
  const reading = readDefinition({ steps: { a: step, ...others, ...more } });
  if (reading.kind === "invalid") throw new Error(JSON.stringify(reading.problems));
  return reading.definition.steps.get("a");
}

export const template = (expression: string): string => `\${${expression}}`;

/** A step, and where it is wrong and how; the place is below the step. */
export type Wrong = readonly [step: Fields, place: string, message: string];

export function expectWrong([step, place, message]: Wrong): void {
  expect(problemsOf(step)).toEqual([[`steps.a.${place}`, message]]);
}
