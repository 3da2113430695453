// Reads the fields of a JSON object one by one and collects every problem with its place, instead of stopping at the first.

import { excerptOf } from "../excerpt.ts";
import type { JsonValue } from "../fingerprint.ts";
import type { Problem } from "./compiled.ts";

export type Fields = { readonly [name: string]: JsonValue };

/** An object being read; problems are added as they are found. */
export type Reading = { readonly path: string; readonly fields: Fields; readonly problems: Problem[] };

export function isFields(value: JsonValue | undefined): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export function report({ path, problems }: Reading, name: string, message: string): void {
  problems.push({ path: pathIn(path, name), message });
}

export function reportItem({ path, problems }: Reading, name: string, index: number, message: string): void {
  problems.push({ path: `${pathIn(path, name)}[${index}]`, message });
}

export function refuseUnknown(reading: Reading, known: readonly string[]): void {
  for (const name of Object.keys(reading.fields)) {
    if (!known.includes(name)) report(reading, name, "this field is unknown");
  }
}

/** Null and the empty values that other programs write for "not set" count as absent. */
export function fieldOf({ fields }: Reading, name: string): JsonValue | undefined {
  const value = Object.hasOwn(fields, name) ? fields[name] : undefined;
  return value === null ? undefined : value;
}

/** Absent, or the empty text that counts as absent where a text belongs. */
export function isUnset(reading: Reading, name: string): boolean {
  const value = fieldOf(reading, name);
  return value === undefined || value === "";
}

type TextRule = {
  readonly charactersMax: number;
  readonly pattern?: RegExp;
  readonly meaning?: string;
};

export function textField(reading: Reading, name: string, rule: TextRule): string | undefined {
  const value = fieldOf(reading, name);
  if (value === undefined || value === "") return undefined;
  if (typeof value !== "string") {
    report(reading, name, "must be a text");
    return undefined;
  }
  const problem = problemOfText(value, rule);
  if (problem !== undefined) report(reading, name, problem);
  return problem === undefined ? value : undefined;
}

function problemOfText(value: string, { charactersMax, pattern, meaning }: TextRule): string | undefined {
  if (value.length > charactersMax) return `has at most ${charactersMax} characters, not ${value.length}`;
  if (pattern !== undefined && !pattern.test(value)) return `must be ${meaning ?? `like ${pattern.source}`}`;
  return undefined;
}

type NumberRule = { readonly min: number; readonly max: number; readonly step?: "whole" };

export function numberField(
  reading: Reading,
  name: string,
  { min, max, step }: NumberRule,
): number | undefined {
  const value = fieldOf(reading, name);
  if (value === undefined) return undefined;
  const fits = typeof value === "number" && value >= min && value <= max;
  if (fits && (step === undefined || Number.isInteger(value))) return value;
  report(reading, name, `must be a ${step ?? "plain"} number from ${min} to ${max}`);
  return undefined;
}

/** Seconds in the definition, milliseconds inside; zero means "not set". */
export function secondsField(reading: Reading, name: string, secondsMax: number): number | undefined {
  const seconds = numberField(reading, name, { min: 0, max: secondsMax });
  if (seconds === undefined || seconds === 0) return undefined;
  // Never rounded down to zero, which would mean "not set".
  return Math.max(1, Math.round(seconds * 1_000));
}

export function flagField(reading: Reading, name: string): boolean | undefined {
  const value = fieldOf(reading, name);
  if (value === undefined || typeof value === "boolean") return value;
  report(reading, name, "must be true or false");
  return undefined;
}

export function choiceField<Choice extends string>(
  reading: Reading,
  name: string,
  choices: readonly Choice[],
): Choice | undefined {
  const value = fieldOf(reading, name);
  if (value === undefined || value === "") return undefined;
  const chosen = choices.find((choice) => choice === value);
  if (chosen === undefined) report(reading, name, `must be one of ${choices.join(", ")}`);
  return chosen;
}

export function objectField(reading: Reading, name: string): Reading | undefined {
  const value = fieldOf(reading, name);
  if (value === undefined) return undefined;
  if (isFields(value)) return { path: pathIn(reading.path, name), fields: value, problems: reading.problems };
  report(reading, name, "must be an object");
  return undefined;
}

export function listField(reading: Reading, name: string): readonly JsonValue[] | undefined {
  const value = fieldOf(reading, name);
  if (value === undefined) return undefined;
  if (Array.isArray(value)) return value;
  report(reading, name, "must be a list");
  return undefined;
}

/** The objects of a list, each to be read on its own; what is none is reported. */
export function itemsOf(
  outer: Reading,
  name: string,
  { max, of }: { readonly max: number; readonly of: string },
): ReadonlyArray<{ readonly index: number; readonly reading: Reading }> {
  const items = listField(outer, name) ?? [];
  if (items.length > max) {
    report(outer, name, `has at most ${max} ${of}, not ${items.length}`);
    return [];
  }
  return items.flatMap((fields, index) => {
    const path = `${pathIn(outer.path, name)}[${index}]`;
    if (isFields(fields)) return [{ index, reading: { path, fields, problems: outer.problems } }];
    reportItem(outer, name, index, "must be an object");
    return [];
  });
}

export function textsField(reading: Reading, name: string, rule: TextRule): string[] {
  return (listField(reading, name) ?? []).flatMap((item, index) => {
    const problem = typeof item === "string" ? problemOfText(item, rule) : "must be a text";
    if (problem !== undefined) reportItem(reading, name, index, problem);
    return typeof item === "string" && problem === undefined ? [item] : [];
  });
}

export function labelsField(reading: Reading, name: string): Readonly<Record<string, string>> {
  const labels = objectField(reading, name);
  if (labels === undefined) return {};
  const entries = Object.keys(labels.fields).flatMap((label) => {
    const value = fieldOf(labels, label);
    if (typeof value === "string" && value.length <= 256 && label.length <= 128 && label !== "__proto__") {
      return [[label, value]];
    }
    report(labels, label, "must be a text of at most 256 characters, under a name of at most 128");
    return [];
  });
  return Object.fromEntries(entries);
}

/** Longer than any name that is allowed: two hundred problems of one step must not repeat a name of 256 KiB each. */
const nameCharactersMax = 128;

export function pathIn(path: string, name: string): string {
  const shown = excerptOf(name, nameCharactersMax);
  if (!/^[A-Za-z0-9_-]+$/.test(shown)) return `${path}[${JSON.stringify(shown)}]`;
  return path === "" ? shown : `${path}.${shown}`;
}
